#include "controller/engine/applier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace muster::controller {
namespace {

// News of ranks that go well: their agent keeps them until they are durable, and works on.
bool NobodyWaitsFor(const Event& event) {
  if (const auto* ack = std::get_if<AssignmentAcked>(&event)) return ack->refusal.empty();
  const auto* report = std::get_if<RankReport>(&event);
  return report != nullptr && (report->kind != RankReport::Kind::kExited || report->succeeded);
}

}  // namespace

Applier::Applier(std::unique_ptr<StateStore> store, Snapshot initial, Clock& clock,
                 Policies policies, Hooks hooks)
    : store_(std::move(store)),
      clock_(clock),
      policies_(policies),
      hooks_(std::move(hooks)),
      current_(std::make_shared<const Snapshot>(std::move(initial))) {
  current_->jobs.ForEach([this](const Job& job) {
    if (!job.idempotency_key.empty()) idempotency_[{job.owner, job.idempotency_key}] = job.id;
  });
}

void Applier::Post(Item item) {
  std::vector<Item> one;
  one.push_back(std::move(item));
  PostAll(std::move(one));
}

void Applier::PostAll(std::vector<Item> items) {
  const bool may_wait = std::all_of(items.begin(), items.end(),
                                    [](const Item& item) { return NobodyWaitsFor(item.event); });
  const absl::Duration now = clock_.SinceBoot();
  absl::Status refused;
  size_t queued = 0;
  bool is_due_sooner = false;
  {
    MutexLock lock(mutex_);
    refused = closed_;
    if (refused.ok()) {
      queued = std::min(items.size(), kMaxQueued - std::min(kMaxQueued, queue_.size()));
      for (size_t i = 0; i < queued; ++i) queue_.push_back(std::move(items[i]));
    }
    if (queued > 0) {
      const absl::Duration due = may_wait && queue_.size() < kEnough ? now + kPatience : now;
      is_due_sooner = due < due_;
      due_ = std::min(due_, due);
    }
  }
  if (is_due_sooner && wake_up_) wake_up_();
  if (refused.ok()) refused = absl::UnavailableError("the controller is overloaded; try again");
  for (size_t i = queued; i < items.size(); ++i) items[i].done(Refuse(refused));
}

absl::Duration Applier::UntilDue() const {
  const absl::Duration now = clock_.SinceBoot();
  MutexLock lock(mutex_);
  return std::max(absl::ZeroDuration(), due_ - now);
}

bool Applier::RunOnce() {
  std::vector<Item> batch;
  {
    MutexLock lock(mutex_);
    const size_t size = std::min(queue_.size(), kMaxBatch);
    batch.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      batch.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    due_ = queue_.empty() ? absl::InfiniteDuration() : absl::ZeroDuration();
  }
  if (batch.empty()) return false;
  RunBatch(std::move(batch));
  if (WhyClosed().ok()) {
    if (const absl::Status status = store_->TruncateLog(); !status.ok()) Fail(status, {});
  }
  hooks_.batch_done(snapshot());
  return true;
}

void Applier::RunBatch(std::vector<Item> batch) {
  const std::shared_ptr<const Snapshot> base = snapshot();
  const RuleContext context{.now = clock_.Now(),
                            .now_at = clock_.SinceBoot(),
                            .idempotency = &idempotency_,
                            .use_half_life = policies_.use_half_life,
                            .quarantine = policies_.quarantine};
  Draft draft(*base, context.now_at);
  std::vector<EventResult> results;
  results.reserve(batch.size());
  for (const Item& item : batch) results.push_back(Reduce(draft, item.event, context));

  const ChangeSet changes = draft.Changes();
  const absl::Status stored = changes.empty() ? absl::OkStatus() : Commit(changes);
  if (!stored.ok() && !absl::IsResourceExhausted(stored)) {
    Fail(stored, std::move(batch));
    return;
  }
  if (!stored.ok() && batch.size() > 1) {
    for (Item& item : batch) {
      const absl::Status closed = WhyClosed();  // by a worse error of one before
      if (!closed.ok()) {
        item.done(Refuse(closed));
        continue;
      }
      std::vector<Item> alone;
      alone.push_back(std::move(item));
      RunBatch(std::move(alone));
    }
    return;
  }
  if (!stored.ok()) {
    Log(LogLevel::kWarning, "not_stored", {{"error", stored.message()}});
    batch.front().done(Refuse(stored));
    return;
  }
  for (const auto& job : changes.new_jobs) {
    if (!job->idempotency_key.empty()) idempotency_[{job->owner, job->idempotency_key}] = job->id;
  }
  hooks_.before_publish(draft.after_commit());
  const AfterCommit after_commit = draft.after_commit();
  Publish(draft.Finish());
  hooks_.after_publish(after_commit);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].done(results[i]);
    hooks_.answered(batch[i], results[i]);
  }
}

absl::Status Applier::Commit(const ChangeSet& changes) {
  const absl::Duration began_at = clock_.SinceBoot();
  const absl::Status stored = store_->Append(changes);
  commit_ns_ += absl::ToInt64Nanoseconds(clock_.SinceBoot() - began_at);
  if (stored.ok()) ++commits_;
  return stored;
}

void Applier::Publish(std::shared_ptr<const Snapshot> next) {
  MutexLock lock(mutex_);
  current_.swap(next);
}

void Applier::Fail(const absl::Status& status, std::vector<Item> batch) {
  Log(LogLevel::kError, "storage_failed", {{"error", status.ToString()}});
  const absl::Status why = absl::UnavailableError(
      absl::StrCat("the controller's storage failed and it must start anew: ", status.message()));
  for (Item& item : batch) item.done(Refuse(why));
  Close(why);
  hooks_.fatal(status);
}

void Applier::Close(const absl::Status& why) {
  std::deque<Item> left;
  {
    MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    left.swap(queue_);
    due_ = absl::InfiniteDuration();
  }
  for (Item& item : left) item.done(Refuse(why));
}

absl::Status Applier::WhyClosed() const {
  MutexLock lock(mutex_);
  return closed_;
}

std::shared_ptr<const Snapshot> Applier::snapshot() const {
  MutexLock lock(mutex_);
  return current_;
}

}  // namespace muster::controller
