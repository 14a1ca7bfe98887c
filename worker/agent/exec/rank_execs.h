// The programs that people run beside this worker's ranks (`muster exec`). On the loop; each has
// two side threads, and they end with the agent.
#pragma once

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <string>

#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/exec/exec_call.h"
#include "worker/agent/gang/supervisor.h"

namespace muster::worker {

class RankExecs {
 public:
  // The controller has fewer (ExecSessions::kMaxPerWorker), so that there are as many here only
  // where some hang.
  static constexpr size_t kMaxExecs = 20;
  static constexpr absl::Duration kStartPatience = absl::Seconds(30);
  // After its rank's end a program is ended within two seconds, and the person hears of it. A
  // person who does not read what it writes holds the call until it is cancelled.
  static constexpr absl::Duration kEndPatience = absl::Seconds(10);

  // `loop` and `supervisor` outlive it. `allowed`: --allow-commands.
  RankExecs(EventLoop& loop, Supervisor& supervisor, const std::shared_ptr<grpc::Channel>& channel,
            std::string token, bool allowed);
  ~RankExecs();
  RankExecs(const RankExecs&) = delete;
  RankExecs& operator=(const RankExecs&) = delete;

  // What is in the way is told to the person, but where kMaxExecs are open: then nobody answers.
  // `leaving`: the agent stops, and starts nothing more.
  void Start(const v1::StartExec& start, bool leaving);

 private:
  // With the rank, until the call is over.
  struct Running {
    std::shared_ptr<ExecCall> call;
    std::shared_ptr<RankCgroup> cgroup;
    UniqueFd rank_end;  // as RankExecContext's; watched, unless it is invalid
  };
  using AllRunning = std::map<std::string, Running>;  // by session

  // Cancels the call some time after its rank's end.
  void FollowRankEnd(Running& running);
  void Forget(const std::string& session);
  absl::StatusOr<RankExecContext> ContextOf(const v1::StartExec& start, bool leaving);

  EventLoop& loop_;
  Supervisor& supervisor_;
  const std::shared_ptr<v1::WorkerService::Stub> stub_;
  const std::string token_;
  const bool allowed_;
  const std::shared_ptr<AllRunning> running_ = std::make_shared<AllRunning>();
  SideThreads threads_;  // two a program
};

}  // namespace muster::worker
