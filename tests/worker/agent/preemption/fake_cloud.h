// The metadata services of three clouds on loopback, for tests: each machine has its own, under a
// folder of the URL. They answer as the clouds' manuals say, or as a test's trouble wants.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "nlohmann/json.hpp"
#include "tests/common/object_store/scripted_server.h"

namespace muster::testing {

class FakeCloud {
 public:
  // True: it has answered the request, or ended the connection.
  using Trouble = std::function<bool(const ServerRequest&, ScriptedServer::Answer&)>;

  FakeCloud();
  ~FakeCloud();
  FakeCloud(const FakeCloud&) = delete;
  FakeCloud& operator=(const FakeCloud&) = delete;

  // The --preemption-url of a machine; `machine` is its name in Azure's events, too.
  std::string Url(const std::string& machine) const { return server_.Url("/" + machine); }
  // Null: none any more.
  void SetTrouble(Trouble trouble) MUSTER_EXCLUDES(mutex_);

  // AWS: the machine is taken away after `in`.
  void Interrupt(const std::string& machine, absl::Duration in,
                 const std::string& action = "terminate") MUSTER_EXCLUDES(mutex_);
  // Tokens that were given are refused from now on.
  void RevokeTokens() MUSTER_EXCLUDES(mutex_);
  // GCP: the values of preempted and maintenance-event.
  void SetPreempted(const std::string& machine, bool preempted) MUSTER_EXCLUDES(mutex_);
  void SetMaintenance(const std::string& machine, const std::string& word) MUSTER_EXCLUDES(mutex_);
  // Azure: an event that all machines see.
  void Schedule(const std::string& id, const std::string& type,
                const std::vector<std::string>& resources, absl::Duration in,
                const std::string& status = "Scheduled") MUSTER_EXCLUDES(mutex_);
  std::vector<std::string> approved() const MUSTER_EXCLUDES(mutex_);

  // No notice of any cloud stands for the machine any more.
  void Withdraw(const std::string& machine) MUSTER_EXCLUDES(mutex_);

  std::vector<ServerRequest> requests() const { return server_.requests(); }
  // How many of them have this end of their path, before the query.
  size_t Count(const std::string& path_end, const std::string& method = "GET") const;

 private:
  struct Machine {
    nlohmann::json action;  // of AWS; null: none
    bool preempted = false;
    int version = 1;  // of `preempted`; its ETag
    std::string maintenance = "NONE";
  };

  void Serve(const ServerRequest& request, ScriptedServer::Answer& answer) MUSTER_EXCLUDES(mutex_);
  void ServeAws(const std::string& machine, const std::string& path, const ServerRequest& request,
                ScriptedServer::Answer& answer) MUSTER_EXCLUDES(mutex_);
  void ServeGcp(const std::string& machine, const std::string& path, const std::string& query,
                const ServerRequest& request, ScriptedServer::Answer& answer)
      MUSTER_EXCLUDES(mutex_);
  void ServeAzure(const std::string& machine, const std::string& path, const std::string& query,
                  const ServerRequest& request, ScriptedServer::Answer& answer)
      MUSTER_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ MUSTER_GUARDED_BY(mutex_) = false;
  Trouble trouble_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, Machine> machines_ MUSTER_GUARDED_BY(mutex_);
  std::set<std::string> tokens_ MUSTER_GUARDED_BY(mutex_);
  int next_token_ MUSTER_GUARDED_BY(mutex_) = 1;
  std::vector<nlohmann::json> events_ MUSTER_GUARDED_BY(mutex_);
  std::vector<std::string> approved_ MUSTER_GUARDED_BY(mutex_);
  ScriptedServer server_;  // last: it calls the above
};

}  // namespace muster::testing
