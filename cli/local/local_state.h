// What `muster local` knows of a Muster that runs under one folder: where things lie in it, and the
// supervisor's own record `supervisor.json`, which it rewrites at every change and `up`, `status`
// and `down` read. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/output/proto_json.h"

namespace muster::cli {

// Names of all that lies under the folder. `dir` is absolute.
struct LocalPaths {
  std::string dir;

  std::string lock() const { return dir + "/supervisor.lock"; }
  std::string record() const { return dir + "/supervisor.json"; }
  std::string controller() const { return dir + "/controller"; }
  std::string token() const { return controller() + "/token"; }
  std::string worker(const std::string& name) const { return dir + "/" + name; }
  std::string logs() const { return dir + "/logs"; }
  std::string log(const std::string& name) const { return logs() + "/" + name + ".log"; }
};

struct DaemonRecord {
  std::string name;          // musterd, worker-1, ...
  int64_t pid = 0;           // 0: not running now
  std::string grpc_address;  // of musterd: for people; of a worker: musterd's port that it talks to
  std::string metrics_url;
  uint32_t restarts = 0;
  std::string state;  // starting, running, restarting, stopped
};

struct LocalRecord {
  std::string dir;
  int64_t supervisor_pid = 0;
  bool stopping = false;
  std::vector<DaemonRecord> daemons;  // musterd first
};

std::string EncodeLocalRecord(const LocalRecord& record);
// INVALID_ARGUMENT for anything that EncodeLocalRecord did not write.
absl::StatusOr<LocalRecord> DecodeLocalRecord(absl::string_view text);

// As `muster local status -o json` shows it.
Json LocalStatusJson(const LocalRecord& record, bool running);

// What a daemon wrote into its endpoints.json once its ports were bound.
struct Endpoints {
  int64_t pid = 0;
  std::string grpc_address;
  std::string worker_address;
  std::string http_address;  // of musterd's HTTP port, or of the agent's metrics
};

// INVALID_ARGUMENT when it is no such file.
absl::StatusOr<Endpoints> DecodeEndpoints(absl::string_view text);

}  // namespace muster::cli
