#include "worker/agent/exec/rank_execs.h"

#include <fcntl.h>
#include <poll.h>

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
  for (const auto& [session, running] : *running_) {
    loop_.Unwatch(running.rank_end.get());
    running.call->Cancel();
  }
}

void RankExecs::FollowRankEnd(Running& running) {
  if (!running.rank_end.valid()) return;
  const int fd = running.rank_end.get();
  loop_.Watch(fd, POLLIN, [this, &running, fd](short) {
    loop_.Unwatch(fd);
    running.rank_end.Reset();
    loop_.After(kEndPatience, [weak = std::weak_ptr(running.call)] {
      if (const auto late = weak.lock()) late->Cancel();
    });
  });
}

void RankExecs::Forget(const std::string& session) {
  const auto found = running_->find(session);
  loop_.Unwatch(found->second.rank_end.get());
  running_->erase(found);
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
  UniqueFd rank_end(context.ok() ? ::fcntl(context->rank_end.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (context.ok() && !rank_end.valid())
    context = absl::ResourceExhaustedError("the agent has no file descriptor left");
  const auto call = std::make_shared<ExecCall>(stub_, token_, start, std::move(context));
  Running& running =
      running_->emplace(session, Running{call, std::move(cgroup), std::move(rank_end)})
          .first->second;
  FollowRankEnd(running);
  loop_.After(kStartPatience, [weak = std::weak_ptr(call)] {
    if (const auto late = weak.lock()) late->GiveUpStart();
  });
  // Where all of them are gone, so is this.
  threads_.Enqueue(
      [this, call, session, all = std::weak_ptr(running_)]() -> SideThreads::Completion {
        call->Run();
        return [this, session, all] {
          if (all.lock() != nullptr) Forget(session);
        };
      });
  threads_.Enqueue([call]() -> SideThreads::Completion {
    call->TakeInput();
    return nullptr;
  });
}

}  // namespace muster::worker
