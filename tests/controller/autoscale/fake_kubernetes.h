// As much of an API server of Kubernetes as the autoscaler speaks to, on loopback over TLS: scales
// of StatefulSets with versions, marks on pods, tokens, and the faults of a busy cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/tls/tls_files.h"

namespace httplib {
struct Request;
struct Response;
class SSLServer;
}  // namespace httplib

namespace muster::testing {

class FakeKubernetes {
 public:
  static constexpr int kCut = -1;
  static constexpr int kDoneAndCut = -2;

  explicit FakeKubernetes(const TlsFiles& files);
  ~FakeKubernetes();

  std::string url() const;

  void SetToken(const std::string& token) MUSTER_EXCLUDES(mutex_);
  void SetReplicas(uint32_t replicas) MUSTER_EXCLUDES(mutex_);
  uint32_t replicas() const MUSTER_EXCLUDES(mutex_);
  std::map<std::string, std::string> marks() const MUSTER_EXCLUDES(mutex_);  // cost by pod
  std::vector<std::string> requests() const MUSTER_EXCLUDES(mutex_);         // "GET PATH"
  // Called before each request, without a lock: the code of the answer instead, 0: as it should be,
  // kCut: the connection ends in the middle of the answer; kDoneAndCut: once the request was done.
  void Disturb(std::function<int(const std::string& method)> disturb) MUSTER_EXCLUDES(mutex_);

 private:
  void Answer(const httplib::Request& request, httplib::Response& response);
  void AnswerRightLocked(const httplib::Request& request, httplib::Response& response)
      MUSTER_REQUIRES(mutex_);

  std::unique_ptr<httplib::SSLServer> server_;
  int port_ = 0;
  std::thread thread_;
  mutable Mutex mutex_;
  std::string token_ MUSTER_GUARDED_BY(mutex_) = "token-1";
  uint64_t version_ MUSTER_GUARDED_BY(mutex_) = 1;
  uint32_t replicas_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> marks_ MUSTER_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ MUSTER_GUARDED_BY(mutex_);
  std::function<int(const std::string&)> disturb_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::testing
