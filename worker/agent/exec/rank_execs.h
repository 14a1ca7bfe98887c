// The programs that people run beside this worker's ranks (`muster exec`). On the loop; each has
// side threads of its own, and they end with the agent.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/exec/exec_call.h"
#include "worker/agent/gang/supervisor.h"

namespace muster::worker {

class RankExecs {
 public:
  // The controller bounds them as well.
  static constexpr size_t kMost = 20;

  // `loop` and `supervisor` outlive it. `allowed`: the agent runs programs of people's.
  RankExecs(EventLoop& loop, Supervisor& supervisor, const std::shared_ptr<grpc::Channel>& channel,
            std::string token, bool allowed);
  ~RankExecs();
  RankExecs(const RankExecs&) = delete;
  RankExecs& operator=(const RankExecs&) = delete;

  // What is in the way is told to the person.
  void Start(const v1::StartExec& start);

 private:
  absl::StatusOr<BesideRank> Beside(const v1::StartExec& start) const;

  Supervisor& supervisor_;
  const std::shared_ptr<v1::WorkerService::Stub> stub_;
  const std::string token_;
  const bool allowed_;
  std::vector<std::weak_ptr<ExecCall>> calls_;
  SideThreads threads_;  // two a program
};

}  // namespace muster::worker
