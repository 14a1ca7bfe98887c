// The key-value store in which a gang meets: one per (job, attempt, generation), in memory, reached
// through the agents.
//
// A store exists while its attempt lives; requests to any other fence fail. Waits end when the keys
// are there, at their deadline, or when the attempt ends. Thread-safe. Callbacks run on the thread
// that ended the wait, with no lock held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

// As StoreRequest in worker_service.proto.
struct StoreOp {
  enum class Kind : uint8_t {
    kSet = 1,
    kGet = 2,
    kAdd = 3,
    kCheck = 4,
    kDelete = 5,
    kWait = 6,
    kCount = 7,
  };
  Fence fence;
  uint32_t rank = 0;
  Kind kind = Kind::kSet;
  std::vector<std::string> keys;
  std::string value;
  absl::Duration timeout;
};

struct StoreAnswer {
  bool found = false;
  std::string value;
  std::string error;  // not empty: failed (fenced, timed out, over a bound, malformed)
  bool timed_out = false;
};

using StoreDone = std::function<void(StoreAnswer)>;

class Rendezvous {
 public:
  // Bounds of one gang's store, and the longest wait.
  static constexpr size_t kMaxKeyBytes = 1024;
  static constexpr size_t kMaxValueBytes = 1u << 20;
  static constexpr size_t kMaxKeys = 1u << 16;
  static constexpr size_t kMaxStoreBytes = 64u << 20;
  static constexpr size_t kMaxWaits = 1u << 16;
  static constexpr size_t kMaxWaitBytes = 64u << 20;  // of their keys
  static constexpr absl::Duration kMaxTimeout = absl::Hours(1);

  explicit Rendezvous(Clock& clock) : clock_(clock) {}

  // Opens the store of a new attempt. `broken` (not empty): the controller restarted while the gang
  // was meeting, so that what was stored is gone: every request fails with this text, and the gang
  // starts over.
  void Open(uint64_t job_id, uint32_t attempt, uint32_t generation, std::string broken = "");
  // Ends all waits with an error and forgets the store.
  void Close(uint64_t job_id, uint32_t attempt);
  void CloseAll();

  void Handle(StoreOp op, StoreDone done);

  // Ends the waits whose deadline has passed; returns when the next one falls due, as a time since
  // boot.
  absl::Duration Expire();
  // Called (with no lock held) when a wait with an earlier deadline than all others begins.
  void SetWakeUp(std::function<void()> wake_up);

 private:
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;
  struct Wait {
    std::vector<std::string> keys;
    size_t found = 0;  // the first so many of them were there
    bool get = false;
    size_t bytes = 0;
    absl::Duration deadline_at;
    StoreDone done;
  };
  struct Gang {
    std::string broken;
    std::map<std::string, std::string> values;
    size_t bytes = 0;
    std::map<uint64_t, Wait> waits;  // by number
    // Each wait stands under one key that is missing, so that a new value wakes only those.
    std::map<std::string, std::set<uint64_t>> waits_for;
    size_t wait_bytes = 0;
  };
  // Many may wait for one large value: each gets its copy only when its turn has come.
  struct Answer {
    StoreDone done;
    StoreAnswer answer;
    std::shared_ptr<const std::string> value = nullptr;  // null: it stands in the answer
  };
  using Answers = std::vector<Answer>;
  static void Give(Answers answers);

  StoreAnswer ApplyLocked(Gang& gang, const StoreOp& op, bool& changed) MUSTER_REQUIRES(mutex_);
  StoreAnswer StoreLocked(Gang& gang, const std::string& key, std::string value)
      MUSTER_REQUIRES(mutex_);
  void AddWaitLocked(const Key& key, Gang& gang, StoreOp op, size_t bytes, StoreDone done)
      MUSTER_REQUIRES(mutex_);
  // Ends the wait and returns it.
  Wait TakeWaitLocked(const Key& key, Gang& gang, uint64_t number) MUSTER_REQUIRES(mutex_);
  // `name` has a value now: ends the waits that have all their keys.
  void WakeLocked(const Key& key, Gang& gang, const std::string& name, Answers& answers)
      MUSTER_REQUIRES(mutex_);
  // Ends them with this error, and forgets the gang.
  void DropGangLocked(std::map<Key, Gang>::iterator gang, const std::string& error,
                      Answers& answers) MUSTER_REQUIRES(mutex_);
  absl::Duration NextDeadlineLocked() const MUSTER_REQUIRES(mutex_);

  Clock& clock_;
  Mutex mutex_;
  std::map<Key, Gang> gangs_ MUSTER_GUARDED_BY(mutex_);
  uint64_t last_wait_ MUSTER_GUARDED_BY(mutex_) = 0;
  // Of all waits: deadline, gang, number.
  std::set<std::tuple<absl::Duration, Key, uint64_t>> deadlines_ MUSTER_GUARDED_BY(mutex_);
  std::function<void()> wake_up_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
