// The only writer of the model and of state.db. Takes queued events in batches, runs them through
// the rules on a draft, stores the changes in one transaction, publishes the new version, and only
// then answers.
//
// A draft that cannot be stored is dropped, so that a full disk changes nothing that was promised:
// its events are tried one by one, and those that need room are refused. But no agent is lost for
// want of room: what its heartbeats and Hellos report is shown without being stored, and its
// reports are kept here, unanswered, and tried again every second.
//
// Agents, people and the loops have a queue each, so that none fills another's. After a
// fatal storage error nothing is accepted any more.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/engine/engine.h"
#include "controller/model/draft.h"
#include "controller/rules/rules.h"
#include "controller/store/state_store.h"

namespace muster::controller {

class Applier {
 public:
  static constexpr size_t kMaxQueued = 1u << 16;  // in each queue
  static constexpr size_t kMaxBatch = 512;        // of which each queue is sure of a third
  // An event that nobody waits for is delayed by at most kPatience, so that others share its
  // commit. Once kEnough events are queued the batch runs at once.
  static constexpr absl::Duration kPatience = absl::Milliseconds(5);
  static constexpr size_t kEnough = 64;
  // Reports that wait for room on the disk: of one agent, below the number of unanswered reports at
  // which its stream stops reading; and of all. More are refused as RESOURCE_EXHAUSTED.
  static constexpr size_t kMaxParkedOfOne = 64;
  static constexpr size_t kMaxParked = 1u << 14;
  static constexpr absl::Duration kRoomRetry = absl::Seconds(1);

  struct Item {
    Event event;
    EventDone done;
    std::shared_ptr<WorkerLink> link;  // of a WorkerHello
    RestoreList restore = {};          // as Engine::Posted.restore
  };

  // All run on the thread of RunOnce.
  struct Hooks {
    std::function<void(const AfterCommit&)> before_publish;  // durable, not yet to be seen
    std::function<void(const AfterCommit&)> after_publish;
    std::function<void(const Item&, const EventResult&)> answered;
    std::function<void(const std::shared_ptr<const Snapshot>&)> batch_done;
    std::function<void(const absl::Status&)> fatal;
  };

  // What the rules go by besides the events: as EngineOptions.
  struct Policies {
    absl::Duration use_half_life = kUseHalfLife;
    QuarantineSettings quarantine;
    const RestoredFrom* restored = nullptr;  // outlives the applier; changes on its thread alone
  };

  Applier(std::unique_ptr<StateStore> store, Snapshot initial, Clock& clock, Policies policies,
          Hooks hooks);

  // Thread-safe. Answers UNAVAILABLE at once when the queue is full or closed.
  void Post(Item item);
  // The same for several, which go into one batch as far as it has room.
  void PostAll(std::vector<Item> items);
  // Has `turn` run on the thread of RunOnce, between two batches, again and again until it returns
  // false. With null, once, when the applier is closed. It must be short. Thread-safe.
  using StoreTurn = std::function<bool(StateStore* store)>;
  void WithStore(StoreTurn turn);
  // Called after each Post or PostAll that made UntilDue shorter; set before the first one.
  void SetWakeUp(std::function<void()> wake_up) { wake_up_ = std::move(wake_up); }

  // How long what is queued may wait for RunOnce: not at all, kPatience at most, or for ever when
  // nothing is queued. Thread-safe.
  absl::Duration UntilDue() const;
  // Applies one batch, due or not, and takes one turn of those that wait for the store; false when
  // nothing was queued. One thread.
  bool RunOnce();
  // Answers everything that is queued, now and later, UNAVAILABLE.
  void Close(const absl::Status& why);

  // Thread-safe.
  std::shared_ptr<const Snapshot> snapshot() const;
  // Transactions so far, and the time spent in them.
  uint64_t commits() const { return commits_; }
  absl::Duration commit_time() const { return absl::Nanoseconds(commit_ns_.load()); }

 private:
  enum class QueueId : uint8_t { kAgents, kPeople, kLoops };
  static constexpr size_t kQueues = 3;
  struct Queued {
    uint64_t number = 0;  // of arrival, over all queues
    Item item;
  };

  static QueueId QueueOf(const Event& event);
  size_t QueuedItemsLocked() const MUSTER_REQUIRES(mutex_);
  std::vector<Item> TakeBatch();

  bool TakeTurn();  // false: none waits
  RuleContext MakeContext() const;
  // Of jobs that left, or came back, or are new.
  void UpdateKeys(const ChangeSet& changes);
  void DropOldKeys();
  absl::Status Commit(const ChangeSet& changes);
  void RunBatch(std::vector<Item> batch);
  // Each by itself, after the batch found no room.
  void RunEach(std::vector<Item> batch);
  void RunAlone(Item item);
  // No room is left for what the event changes, as `stored` says.
  void RunWithoutRoom(Item item, const absl::Status& stored);
  // What the drafts' changes mean to everybody, now that they are stored or need not be.
  void Finish(Draft& draft, const ChangeSet& changes, std::vector<Item> batch,
              const std::vector<EventResult>& results);
  void Publish(std::shared_ptr<const Snapshot> next);

  // ---- reports that wait for room; only on the thread of RunOnce ----
  bool HasParked(const std::string& worker) const { return parked_of_.count(worker) != 0; }
  void Park(Item item, const absl::Status& why);
  // Up to `most` of them, the oldest first, to be tried again.
  std::vector<Item> TakeParked(size_t most);
  // The agent will repeat them on another stream.
  void DropParkedOf(const std::string& worker);
  // After an event that was taken: a Hello that is refused ends nobody's stream.
  void DropParkedIfGone(const Event& event);
  void Fail(const absl::Status& status, std::vector<Item> batch);
  absl::Status WhyClosed() const;  // OK while open

  const std::unique_ptr<StateStore> store_;
  Clock& clock_;
  const Policies policies_;
  const Hooks hooks_;
  std::function<void()> wake_up_;
  IdempotencyIndex idempotency_;  // only on the thread of RunOnce, as what follows
  struct ArchivedKey {
    absl::Duration until;  // since boot
    std::shared_ptr<const Job> job;
  };
  std::deque<ArchivedKey> archived_keys_;

  // Only on the thread of RunOnce.
  std::deque<Item> parked_;
  std::map<std::string, size_t> parked_of_;                // by worker; above zero
  absl::Duration full_until_ = -absl::InfiniteDuration();  // until then nothing of agents is stored
  bool full_ = false;  // nothing was stored since the disk was found full

  std::atomic<uint64_t> commits_ = 0;
  std::atomic<int64_t> commit_ns_ = 0;

  mutable Mutex mutex_;
  std::array<std::deque<Queued>, kQueues> queues_ MUSTER_GUARDED_BY(mutex_);
  uint64_t arrived_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::deque<StoreTurn> turns_ MUSTER_GUARDED_BY(mutex_);
  // Since boot.
  absl::Duration due_ MUSTER_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Duration retry_at_ MUSTER_GUARDED_BY(mutex_) = absl::InfiniteDuration();  // of parked_
  absl::Status closed_ MUSTER_GUARDED_BY(mutex_);                                 // OK while open
  std::shared_ptr<const Snapshot> current_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
