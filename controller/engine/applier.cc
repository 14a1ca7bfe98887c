#include "controller/engine/applier.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace muster::controller {
namespace {

// Reports of ranks that go well: their agent keeps them until they are durable, and works on.
bool NobodyWaitsFor(const Event& event) {
  if (const auto* ack = std::get_if<AssignmentAcked>(&event)) return ack->refusal.empty();
  const auto* report = std::get_if<RankReport>(&event);
  return report != nullptr && (report->kind != RankReport::Kind::kExited || report->succeeded);
}

// What an agent keeps until it is answered, so that it may wait here for room: the worker's name.
// Null: it may not.
const std::string* WaitsForRoom(const Event& event) {
  return std::visit(
      [](const auto& e) -> const std::string* {
        using T = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<T, AssignmentAcked> || std::is_same_v<T, RankReport> ||
                      std::is_same_v<T, CheckpointReport> || std::is_same_v<T, VerifyReport> ||
                      std::is_same_v<T, DeleteReport> || std::is_same_v<T, WorkerNotice>) {
          return &e.worker;
        } else {
          return nullptr;
        }
      },
      event);
}

// Events that need not be durable: they are applied in memory when they cannot be stored.
bool MayGoUnstored(const Event& event) {
  return std::holds_alternative<WorkerHello>(event) ||
         std::holds_alternative<WorkerHeartbeat>(event) ||
         std::holds_alternative<WorkerDisconnected>(event) ||
         std::holds_alternative<Findings>(event);
}

EventResult Apply(Draft& draft, const Applier::Item& item, const RuleContext& context) {
  for (const auto& jobs : item.restore) {
    EventResult restored = OnRestoreJobs(draft, *jobs, context);
    if (!restored.status.ok()) return restored;
  }
  return Reduce(draft, item.event, context);
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

Applier::QueueId Applier::QueueOf(const Event& event) {
  const bool of_loops =
      std::holds_alternative<ApplyPlan>(event) || std::holds_alternative<Findings>(event) ||
      std::holds_alternative<AssignCheckpointWork>(event) ||
      std::holds_alternative<ArchiveJobs>(event) || std::holds_alternative<ReconcileRoots>(event);
  if (of_loops) return QueueId::kLoops;
  const bool of_agents = std::holds_alternative<WorkerHello>(event) ||
                         std::holds_alternative<WorkerHeartbeat>(event) ||
                         std::holds_alternative<WorkerDisconnected>(event) ||
                         WaitsForRoom(event) != nullptr;
  return of_agents ? QueueId::kAgents : QueueId::kPeople;
}

size_t Applier::QueuedItemsLocked() const {
  size_t items = 0;
  for (const auto& queue : queues_) items += queue.size();
  return items;
}

void Applier::PostAll(std::vector<Item> items) {
  const bool may_wait = std::all_of(items.begin(), items.end(),
                                    [](const Item& item) { return NobodyWaitsFor(item.event); });
  const absl::Duration now = clock_.SinceBoot();
  absl::Status refused;
  std::vector<Item> left;  // those that are not taken
  bool is_due_sooner = false;
  {
    MutexLock lock(mutex_);
    refused = closed_;
    size_t queued = 0;
    for (Item& item : items) {
      auto& queue = queues_[static_cast<size_t>(QueueOf(item.event))];
      if (!refused.ok() || queue.size() >= kMaxQueued) {
        left.push_back(std::move(item));
        continue;
      }
      queue.push_back({.number = ++arrived_, .item = std::move(item)});
      ++queued;
    }
    if (queued > 0) {
      const absl::Duration due = may_wait && QueuedItemsLocked() < kEnough ? now + kPatience : now;
      is_due_sooner = due < due_;
      due_ = std::min(due_, due);
    }
  }
  if (is_due_sooner && wake_up_) wake_up_();
  if (refused.ok()) refused = absl::UnavailableError("the controller is overloaded; try again");
  for (Item& item : left) item.done(Refuse(refused));
}

absl::Duration Applier::UntilDue() const {
  const absl::Duration now = clock_.SinceBoot();
  MutexLock lock(mutex_);
  return std::max(absl::ZeroDuration(), std::min(due_, retry_at_) - now);
}

// In the order of their arrival, but with a third for each queue, however full another one is.
std::vector<Applier::Item> Applier::TakeBatch() {
  std::vector<Queued> taken;
  {
    MutexLock lock(mutex_);
    size_t room = kMaxBatch;
    const auto take = [&](std::deque<Queued>& queue, size_t most) {
      for (size_t i = std::min({queue.size(), most, room}); i > 0; --i, --room) {
        taken.push_back(std::move(queue.front()));
        queue.pop_front();
      }
    };
    taken.reserve(std::min(kMaxBatch, QueuedItemsLocked()));
    for (auto& queue : queues_) take(queue, kMaxBatch / kQueues);
    for (auto& queue : queues_) take(queue, room);
    const bool is_idle = QueuedItemsLocked() == 0 && turns_.empty();
    due_ = is_idle ? absl::InfiniteDuration() : absl::ZeroDuration();
  }
  std::sort(taken.begin(), taken.end(),
            [](const Queued& a, const Queued& b) { return a.number < b.number; });
  std::vector<Item> batch;
  batch.reserve(taken.size());
  for (Queued& queued : taken) batch.push_back(std::move(queued.item));
  return batch;
}

void Applier::WithStore(StoreTurn turn) {
  bool is_closed = false;
  {
    MutexLock lock(mutex_);
    is_closed = !closed_.ok();
    if (!is_closed) {
      turns_.push_back(std::move(turn));
      due_ = absl::ZeroDuration();
    }
  }
  if (is_closed) {
    turn(nullptr);
  } else if (wake_up_) {
    wake_up_();
  }
}

bool Applier::TakeTurn() {
  StoreTurn turn;
  {
    MutexLock lock(mutex_);
    if (turns_.empty()) return false;
    turn = std::move(turns_.front());
    turns_.pop_front();
  }
  const bool is_open = WhyClosed().ok();
  const bool goes_on = turn(is_open ? store_.get() : nullptr);
  MutexLock lock(mutex_);
  if (goes_on && is_open) turns_.push_back(std::move(turn));
  return true;
}

bool Applier::RunOnce() {
  const bool took_turn = TakeTurn();
  std::vector<Item> batch;
  // All of them: what is left behind would be overtaken by what is tried and waits again.
  if (!parked_.empty() && clock_.SinceBoot() >= full_until_) batch = TakeParked(kMaxParked);
  for (Item& item : TakeBatch()) batch.push_back(std::move(item));
  if (batch.empty()) return took_turn;
  DropOldKeys();
  RunBatch(std::move(batch));
  {
    MutexLock lock(mutex_);
    retry_at_ = parked_.empty() ? absl::InfiniteDuration() : full_until_;
  }
  if (WhyClosed().ok()) {
    if (const absl::Status status = store_->TruncateLog(); !status.ok()) Fail(status, {});
  }
  hooks_.batch_done(snapshot());
  return true;
}

RuleContext Applier::MakeContext() const {
  return {.now = clock_.Now(),
          .now_at = clock_.SinceBoot(),
          .idempotency = &idempotency_,
          .use_half_life = policies_.use_half_life,
          .quarantine = policies_.quarantine,
          .restored = policies_.restored};
}

void Applier::RunBatch(std::vector<Item> batch) {
  // What waits for room must not be overtaken.
  if (!parked_.empty() || clock_.SinceBoot() < full_until_) return RunEach(std::move(batch));
  const std::shared_ptr<const Snapshot> base = snapshot();
  const RuleContext context = MakeContext();
  Draft draft(*base, context.now_at);
  std::vector<EventResult> results;
  results.reserve(batch.size());
  for (const Item& item : batch) results.push_back(Apply(draft, item, context));

  const ChangeSet changes = draft.Changes();
  const absl::Status stored = changes.empty() ? absl::OkStatus() : Commit(changes);
  if (stored.ok()) return Finish(draft, changes, std::move(batch), results);
  if (!absl::IsResourceExhausted(stored)) return Fail(stored, std::move(batch));
  if (batch.size() > 1) return RunEach(std::move(batch));
  RunWithoutRoom(std::move(batch.front()), stored);
}

void Applier::RunEach(std::vector<Item> batch) {
  for (Item& item : batch) {
    const absl::Status closed = WhyClosed();  // by a worse error of one before
    if (!closed.ok()) {
      item.done(Refuse(closed));
    } else {
      RunAlone(std::move(item));
    }
  }
}

void Applier::RunAlone(Item item) {
  const std::string* reporter = WaitsForRoom(item.event);
  const absl::Status full =
      absl::ResourceExhaustedError("no room left for the controller's database");
  if (reporter != nullptr && HasParked(*reporter)) return Park(std::move(item), full);
  const bool of_agent = QueueOf(item.event) == QueueId::kAgents;
  if (of_agent && clock_.SinceBoot() < full_until_) return RunWithoutRoom(std::move(item), full);

  const std::shared_ptr<const Snapshot> base = snapshot();
  const RuleContext context = MakeContext();
  Draft draft(*base, context.now_at);
  std::vector<EventResult> results{Apply(draft, item, context)};
  const ChangeSet changes = draft.Changes();
  const absl::Status stored = changes.empty() ? absl::OkStatus() : Commit(changes);
  std::vector<Item> batch;
  batch.push_back(std::move(item));
  if (stored.ok()) return Finish(draft, changes, std::move(batch), results);
  if (!absl::IsResourceExhausted(stored)) return Fail(stored, std::move(batch));
  RunWithoutRoom(std::move(batch.front()), stored);
}

void Applier::RunWithoutRoom(Item item, const absl::Status& stored) {
  if (QueueOf(item.event) == QueueId::kAgents && clock_.SinceBoot() >= full_until_) {
    full_until_ = clock_.SinceBoot() + kRoomRetry;
    if (!std::exchange(full_, true)) {
      Log(LogLevel::kWarning, "state_disk_full", {{"error", stored.message()}});
    }
  }
  if (WaitsForRoom(item.event) != nullptr) return Park(std::move(item), stored);
  if (MayGoUnstored(item.event)) {
    const std::shared_ptr<const Snapshot> base = snapshot();
    RuleContext context = MakeContext();
    context.disk_full = true;
    Draft draft(*base, context.now_at);
    std::vector<EventResult> results{Apply(draft, item, context)};
    if (draft.LeaveUnstored()) {
      std::vector<Item> batch;
      batch.push_back(std::move(item));
      return Finish(draft, {}, std::move(batch), results);
    }
  }
  Log(LogLevel::kWarning, "not_stored", {{"error", stored.message()}});
  item.done(Refuse(stored));
}

void Applier::Finish(Draft& draft, const ChangeSet& changes, std::vector<Item> batch,
                     const std::vector<EventResult>& results) {
  hooks_.before_publish(draft.after_commit());
  const AfterCommit after_commit = draft.after_commit();
  Publish(draft.Finish());
  UpdateKeys(changes);
  hooks_.after_publish(after_commit);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!parked_.empty() && results[i].status.ok()) DropParkedIfGone(batch[i].event);
    batch[i].done(results[i]);
    hooks_.answered(batch[i], results[i]);
  }
}

void Applier::DropOldKeys() {
  const absl::Duration now = clock_.SinceBoot();
  while (!archived_keys_.empty() && archived_keys_.front().until <= now) {
    const Job& job = *archived_keys_.front().job;
    const auto key = idempotency_.find({job.owner, job.idempotency_key});
    const bool is_its = key != idempotency_.end() && key->second == job.id;
    if (is_its && snapshot()->FindJob(job.id) == nullptr) idempotency_.erase(key);
    archived_keys_.pop_front();
  }
}

void Applier::UpdateKeys(const ChangeSet& changes) {
  const absl::Duration now = clock_.SinceBoot();
  const auto add = [this](const Job& job) {
    if (!job.idempotency_key.empty()) idempotency_[{job.owner, job.idempotency_key}] = job.id;
  };
  for (const auto& job : changes.new_jobs) add(*job);
  for (const ArchivedJob& restored : changes.jobs_restored) add(*restored.job);
  for (const auto& job : changes.jobs_archived) {
    if (!job->idempotency_key.empty()) archived_keys_.push_back({now + kArchivedKeyKept, job});
  }
}

void Applier::Park(Item item, const absl::Status& why) {
  const std::string& worker = *WaitsForRoom(item.event);
  const auto it = parked_of_.find(worker);
  const size_t of_one = it == parked_of_.end() ? 0 : it->second;
  if (of_one >= kMaxParkedOfOne || parked_.size() >= kMaxParked) {
    item.done(Refuse(why));
    return;
  }
  ++parked_of_[worker];
  parked_.push_back(std::move(item));
}

std::vector<Applier::Item> Applier::TakeParked(size_t most) {
  std::vector<Item> taken;
  while (!parked_.empty() && taken.size() < most) {
    const auto of_one = parked_of_.find(*WaitsForRoom(parked_.front().event));
    if (--of_one->second == 0) parked_of_.erase(of_one);
    taken.push_back(std::move(parked_.front()));
    parked_.pop_front();
  }
  return taken;
}

void Applier::DropParkedOf(const std::string& worker) {
  if (parked_of_.erase(worker) == 0) return;
  std::deque<Item> kept;
  std::vector<Item> dropped;
  for (Item& item : parked_) {
    (*WaitsForRoom(item.event) == worker ? dropped.emplace_back() : kept.emplace_back()) =
        std::move(item);
  }
  parked_.swap(kept);
  for (Item& item : dropped) {
    item.done(Refuse(absl::UnavailableError("its stream ended before there was room for it")));
  }
}

void Applier::DropParkedIfGone(const Event& event) {
  if (const auto* hello = std::get_if<WorkerHello>(&event)) return DropParkedOf(hello->worker);
  const auto* gone = std::get_if<WorkerDisconnected>(&event);
  if (gone == nullptr) return;
  const std::shared_ptr<const Snapshot> now = snapshot();
  const Worker* worker = now->FindWorker(gone->worker);
  if (worker != nullptr && worker->pulse.stream == gone->stream) DropParkedOf(gone->worker);
}

absl::Status Applier::Commit(const ChangeSet& changes) {
  const absl::Duration began_at = clock_.SinceBoot();
  const absl::Status stored = store_->Append(changes);
  commit_ns_ += absl::ToInt64Nanoseconds(clock_.SinceBoot() - began_at);
  if (!stored.ok()) return stored;
  ++commits_;
  if (std::exchange(full_, false)) Log(LogLevel::kInfo, "state_disk_has_room");
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
  std::array<std::deque<Queued>, kQueues> left;
  std::deque<StoreTurn> turns;
  {
    MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    left.swap(queues_);
    turns.swap(turns_);
    due_ = retry_at_ = absl::InfiniteDuration();
  }
  for (std::deque<Queued>& queue : left) {
    for (Queued& queued : queue) queued.item.done(Refuse(why));
  }
  for (Item& item : TakeParked(kMaxParked)) item.done(Refuse(why));
  for (const StoreTurn& turn : turns) turn(nullptr);
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
