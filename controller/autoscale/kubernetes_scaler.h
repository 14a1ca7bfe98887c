// Scales a StatefulSet or a Deployment of workers through its scale subresource, as the pod's own
// service account.
//
// Each call reads the number and writes the new one under the version that was read, so that a
// change by anybody else is seen (409) and not overwritten. Nothing is watched: every look asks
// anew. Of a Deployment the pods that leave are marked first (pod-deletion-cost), and those that
// stay the other way; a StatefulSet takes the highest numbers by itself. The token is read for each
// call, since the kubelet renews it. One thread but for Stop.
#pragma once

#include <string>
#include <utility>

#include "common/fs/file_system.h"
#include "common/object_store/http_client.h"
#include "controller/autoscale/scaler.h"

namespace muster::controller {

struct KubernetesTarget {
  enum class Kind { kStatefulSet, kDeployment };
  Kind kind = Kind::kStatefulSet;
  std::string name_space;
  std::string name;
};

struct KubernetesAccess {
  std::string url = "https://kubernetes.default.svc";  // of the API server
  std::string token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
  std::string ca_file = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
};

class KubernetesScaler final : public Scaler {
 public:
  static constexpr int kMostConflicts = 5;                          // in a row, in one call
  static constexpr absl::Duration kDeadline = absl::Seconds(15);    // of one request
  static constexpr absl::Duration kLongestWait = absl::Minutes(5);  // that an answer may ask for

  // `fs` outlives it.
  KubernetesScaler(KubernetesTarget target, KubernetesAccess access, FileSystem& fs,
                   absl::Duration deadline = kDeadline);

  absl::StatusOr<std::optional<uint32_t>> Asked() override;
  absl::Status ScaleTo(const PoolDecision& decision) override;
  absl::Duration asked_to_wait() const override { return asked_to_wait_; }
  void Stop() override { stop_.Stop(); }

 private:
  struct Scale {
    std::string version;
    uint32_t replicas = 0;
  };
  std::string ScalePath() const;
  absl::StatusOr<HttpResponse> Send(const std::string& method, const std::string& path,
                                    const std::string& type, const std::string& body);
  absl::StatusOr<Scale> Read();
  // ABORTED: somebody changed it meanwhile.
  absl::Status Write(const Scale& read, uint32_t replicas);
  // A pod that is gone needs no mark.
  absl::Status Mark(const std::string& pod, int cost);
  absl::Status ErrorOf(const std::string& method, const std::string& path,
                       const HttpResponse& response);

  const KubernetesTarget target_;
  const KubernetesAccess access_;
  FileSystem& fs_;
  const absl::Duration deadline_;
  HttpClient http_;
  HttpStop stop_;
  absl::Duration asked_to_wait_;
};

}  // namespace muster::controller
