#include "worker/agent/exec/rank_execs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace muster::worker {

RankExecs::RankExecs(EventLoop& loop, Supervisor& supervisor,
                     const std::shared_ptr<grpc::Channel>& channel, std::string token, bool allowed)
    : supervisor_(supervisor),
      stub_(v1::WorkerService::NewStub(channel)),
      token_(std::move(token)),
      allowed_(allowed),
      threads_(loop.mailbox(), 2 * kMost) {}

RankExecs::~RankExecs() {
  for (const auto& weak : calls_) {
    if (const auto call = weak.lock()) call->Cancel();
  }
}

absl::StatusOr<BesideRank> RankExecs::Beside(const v1::StartExec& start) const {
  if (!allowed_) {
    return absl::FailedPreconditionError("this worker runs no programs of people's");
  }
  if (calls_.size() >= kMost) {
    return absl::ResourceExhaustedError(
        absl::StrCat(calls_.size(), " programs of people run beside ranks here already"));
  }
  return supervisor_.Beside(start.fence(), start.rank(), start.has_terminal());
}

void RankExecs::Start(const v1::StartExec& start) {
  if (start.argv().empty()) return;
  std::erase_if(calls_, [](const auto& call) { return call.expired(); });
  Log(LogLevel::kInfo, "exec",
      {{"job", start.fence().job_id()}, {"rank", start.rank()}, {"program", start.argv(0)}});
  const auto call = std::make_shared<ExecCall>(stub_, token_, start, Beside(start));
  calls_.push_back(call);
  threads_.Enqueue([call]() -> SideThreads::Completion {
    call->Run();
    return nullptr;
  });
  threads_.Enqueue([call]() -> SideThreads::Completion {
    call->TakeInput();
    return nullptr;
  });
}

}  // namespace muster::worker
