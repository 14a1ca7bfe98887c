// The only writer of the model and of state.db. Takes queued events in batches, runs them through
// the rules on a draft, stores the changes in one transaction, publishes the new version, and only
// then answers.
//
// A draft that cannot be stored is dropped, so that a full disk changes nothing: its events are
// tried one by one, and those that need room are refused. After a fatal storage error nothing is
// accepted any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/engine/engine.h"
#include "controller/engine/rules.h"
#include "controller/model/draft.h"
#include "controller/store/state_store.h"

namespace muster::controller {

class Applier {
 public:
  static constexpr size_t kMaxQueued = 1u << 16;
  static constexpr size_t kMaxBatch = 512;
  // What nobody waits for lies this long at most, so that others come to share its commit, and no
  // longer once so many are queued.
  static constexpr absl::Duration kPatience = absl::Milliseconds(5);
  static constexpr size_t kEnough = 64;

  struct Item {
    Event event;
    EventDone done;
    std::shared_ptr<WorkerLink> link;  // of a WorkerHello
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
  };

  Applier(std::unique_ptr<StateStore> store, Snapshot initial, Clock& clock, Policies policies,
          Hooks hooks);

  // Thread-safe. Answers UNAVAILABLE at once when the queue is full or closed.
  void Post(Item item);
  // The same for several, which go into one batch as far as it has room.
  void PostAll(std::vector<Item> items);
  // Called after each Post or PostAll that made UntilDue shorter; set before the first one.
  void SetWakeUp(std::function<void()> wake_up) { wake_up_ = std::move(wake_up); }

  // How long what is queued may wait for RunOnce: not at all, kPatience at most, or for ever when
  // nothing is queued. Thread-safe.
  absl::Duration UntilDue() const;
  // Applies one batch, due or not; false when nothing was queued. One thread.
  bool RunOnce();
  // Answers everything that is queued, now and later, UNAVAILABLE.
  void Close(const absl::Status& why);

  // Thread-safe.
  std::shared_ptr<const Snapshot> snapshot() const;
  // Transactions so far, and the time spent in them.
  uint64_t commits() const { return commits_; }
  absl::Duration commit_time() const { return absl::Nanoseconds(commit_ns_.load()); }

 private:
  absl::Status Commit(const ChangeSet& changes);
  void RunBatch(std::vector<Item> batch);
  void Publish(std::shared_ptr<const Snapshot> next);
  void Fail(const absl::Status& status, std::vector<Item> batch);
  absl::Status WhyClosed() const;  // OK while open

  const std::unique_ptr<StateStore> store_;
  Clock& clock_;
  const Policies policies_;
  const Hooks hooks_;
  std::function<void()> wake_up_;
  IdempotencyIndex idempotency_;  // only on the thread of RunOnce

  std::atomic<uint64_t> commits_ = 0;
  std::atomic<int64_t> commit_ns_ = 0;

  mutable Mutex mutex_;
  std::deque<Item> queue_ MUSTER_GUARDED_BY(mutex_);
  // Since boot.
  absl::Duration due_ MUSTER_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Status closed_ MUSTER_GUARDED_BY(mutex_);  // OK while open
  std::shared_ptr<const Snapshot> current_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
