// One thread that turns what waits for the world to change: watchers of jobs, followers of logs,
// calls that wait for a reread. Each is turned when it is added, then at most once an interval,
// and only while there are any.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/api/calls/caller_shares.h"

namespace muster::controller {

class Pumped {
 public:
  virtual ~Pumped() = default;
  // Looks whether there is something to do, and does not block. False: it is over, never turn it
  // again.
  virtual bool Turn() = 0;
  // Ends the call with that status: the controller is stopping, or too many wait already.
  virtual void Abort(const absl::Status& why) = 0;
};

class StreamPump {
 public:
  // At most five turns a second: so is WatchJob's promise.
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);

  // What may wait at once: each holds a connection's stream and is looked at in each interval.
  static constexpr size_t kMaxPumped = 4096;

  // Each caller may have a quarter of `max_pumped`.
  explicit StreamPump(Clock& clock, size_t max_pumped = kMaxPumped);
  ~StreamPump();  // stops

  // Thread-safe. `caller`: Caller::Share. Aborts `pumped` at once after Stop (UNAVAILABLE) and
  // while too many wait, or too many of that caller (RESOURCE_EXHAUSTED).
  void Add(std::shared_ptr<Pumped> pumped, const std::string& caller);
  // Aborts all, ends the thread. Idempotent.
  void Stop();

 private:
  struct Entry {
    std::shared_ptr<Pumped> pumped;
    CallerShares::Place place;
  };

  absl::Status Admit(Entry entry, const std::string& caller) MUSTER_EXCLUDES(mutex_);
  void Run();

  Clock& clock_;
  const size_t max_pumped_;
  CallerShares shares_;
  Mutex mutex_;
  CondVar wake_;
  std::vector<Entry> added_ MUSTER_GUARDED_BY(mutex_);
  size_t turning_ MUSTER_GUARDED_BY(mutex_) = 0;  // the thread's own, besides added_
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster::controller
