#include "worker/agent/preemption/notice_watcher.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/metrics/metric_names.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<NoticeWatcher>> NoticeWatcher::Create(
    const NoticeWatcherOptions& options, Clock& clock, MetricFamilies& families,
    std::shared_ptr<Mailbox> mailbox, Handler handler) {
  auto watcher = std::unique_ptr<NoticeWatcher>(
      new NoticeWatcher(options, clock, families, std::move(mailbox), std::move(handler)));
  MUSTER_ASSIGN_OR_RETURN(
      watcher->source_,
      MakeNoticeSource(options.source, options.url, options.has_gpus, clock, watcher->stop_));
  if (watcher->source_ == nullptr) return nullptr;
  families.Set(metric::kWorkerPreemptionSourceUp, {options.source}, 0);
  families.Set(metric::kWorkerPreemptionNoticesTotal, {options.source}, 0);
  families.Set(metric::kWorkerPreemptionPending, 0);
  return watcher;
}

NoticeWatcher::NoticeWatcher(const NoticeWatcherOptions& options, Clock& clock,
                             MetricFamilies& families, std::shared_ptr<Mailbox> mailbox,
                             Handler handler)
    : options_(options),
      clock_(clock),
      families_(families),
      mailbox_(std::move(mailbox)),
      handler_(std::move(handler)),
      backoff_(options.first_backoff, options.max_backoff, options.seed) {}

NoticeWatcher::~NoticeWatcher() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

void NoticeWatcher::Start() {
  thread_ = std::thread([this] { Run(); });
}

void NoticeWatcher::Approve(const std::string& id) {
  MutexLock lock(mutex_);
  to_approve_ = id;
}

void NoticeWatcher::Run() {
  while (!stop_.is_stopped()) {
    GiveApproval();
    const absl::Duration asked = clock_.SinceBoot();
    const absl::StatusOr<std::optional<MachineNotice>> answer = source_->Ask();
    if (stop_.is_stopped()) return;
    absl::Duration pause;
    if (answer.ok()) {
      // What is left is counted from the answer: it said so a moment ago at most.
      TakeAnswer(*answer, clock_.SinceBoot());
      backoff_.Reset();
      pause = std::max(absl::ZeroDuration(), options_.period - (clock_.SinceBoot() - asked));
    } else {
      TakeFailure(answer.status());
      pause = backoff_.Next();
    }
    // The agent waits for the first word before it says hello.
    if (!has_said_) Say({});
    if (!stop_.Sleep(pause)) return;
  }
}

void NoticeWatcher::TakeAnswer(const std::optional<MachineNotice>& answer, absl::Duration now) {
  if (answers_ != true) {
    Log(LogLevel::kInfo, "preemption_source_answers", {{"source", options_.source}});
  }
  answers_ = true;
  families_.Set(metric::kWorkerPreemptionSourceUp, {options_.source}, 1);
  const NoticeChange change = rules_.OnAnswer(answer, now);
  if (change == NoticeChange::kNone) return;
  families_.Set(metric::kWorkerPreemptionPending, rules_.stands() ? 1 : 0);
  if (change == NoticeChange::kWithdrawn) {
    Log(LogLevel::kInfo, "preemption_notice_withdrawn", {{"source", options_.source}});
    {
      MutexLock lock(mutex_);
      to_approve_.clear();
    }
    return Say({.change = change});
  }
  if (change == NoticeChange::kGiven) {
    families_.Add(metric::kWorkerPreemptionNoticesTotal, {options_.source});
  }
  Log(LogLevel::kWarning, "preemption_notice",
      {{"source", options_.source},
       {"id", answer->id},
       {"message", answer->message},
       {"left", HumanDuration(answer->left)},
       {"sooner", change == NoticeChange::kSooner}});
  Say({.change = change, .notice = *answer, .deadline = rules_.deadline()});
}

void NoticeWatcher::TakeFailure(const absl::Status& why) {
  rules_.OnFailure();
  families_.Set(metric::kWorkerPreemptionSourceUp, {options_.source}, 0);
  if (answers_ == false) return;
  answers_ = false;
  Log(LogLevel::kWarning, "preemption_source_fails",
      {{"source", options_.source}, {"error", why.ToString()}});
}

void NoticeWatcher::Say(NoticeWord word) {
  has_said_ = true;
  mailbox_->Post([handler = handler_, word = std::move(word)] { handler(word); });
}

void NoticeWatcher::GiveApproval() {
  std::string id;
  {
    MutexLock lock(mutex_);
    id = to_approve_;
  }
  if (id.empty()) return;
  const absl::Status told = source_->Approve(id);
  if (!told.ok()) {
    Log(LogLevel::kWarning, "preemption_not_approved", {{"id", id}, {"error", told.ToString()}});
    return;
  }
  Log(LogLevel::kInfo, "preemption_approved", {{"source", options_.source}, {"id", id}});
  MutexLock lock(mutex_);
  if (to_approve_ == id) to_approve_.clear();
}

}  // namespace muster::worker
