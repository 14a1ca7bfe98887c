#include "worker/agent/exec/rank_execs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace muster::worker {

RankExecs::RankExecs(EventLoop& loop, Supervisor& supervisor,
                     const std::shared_ptr<grpc::Channel>& channel, std::string token, bool allowed)
    : loop_(loop),
      supervisor_(supervisor),
      stub_(v1::WorkerService::NewStub(channel)),
      token_(std::move(token)),
      allowed_(allowed),
      threads_(loop.mailbox(), 2 * kMaxExecs) {}

RankExecs::~RankExecs() {
  for (const auto& [session, running] : *running_) running.call->Cancel();
}

absl::StatusOr<RankExecContext> RankExecs::ContextOf(const v1::StartExec& start, bool leaving) {
  if (leaving) return absl::FailedPreconditionError("its worker is being stopped");
  if (!allowed_) {
    return absl::FailedPreconditionError("this worker was started without --allow-commands");
  }
  return supervisor_.ExecContextOf(start.fence(), start.rank(), start.has_terminal());
}

void RankExecs::Start(const v1::StartExec& start, bool leaving) {
  const std::string& session = start.session();
  if (start.argv().empty() || running_->contains(session)) return;
  if (running_->size() >= kMaxExecs) {
    Log(LogLevel::kWarning, "exec_left_off", {{"running", running_->size()}});
    return;
  }
  Log(LogLevel::kInfo, "exec",
      {{"job", start.fence().job_id()}, {"rank", start.rank()}, {"program", start.argv(0)}});
  absl::StatusOr<RankExecContext> context = ContextOf(start, leaving);
  std::shared_ptr<RankCgroup> cgroup =
      context.ok() ? std::exchange(context->cgroup, nullptr) : nullptr;
  const auto call = std::make_shared<ExecCall>(stub_, token_, start, std::move(context));
  running_->emplace(session, Running{call, std::move(cgroup)});
  loop_.After(kStartPatience, [weak = std::weak_ptr(call)] {
    if (const auto late = weak.lock()) late->GiveUpStart();
  });
  threads_.Enqueue([call, session, all = std::weak_ptr(running_)]() -> SideThreads::Completion {
    call->Run();
    return [session, all] {
      if (const auto running = all.lock()) running->erase(session);
    };
  });
  threads_.Enqueue([call]() -> SideThreads::Completion {
    call->TakeInput();
    return nullptr;
  });
}

}  // namespace muster::worker
