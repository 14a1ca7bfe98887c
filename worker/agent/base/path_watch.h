// What a job on a side thread touches now, for the loop to see: whether it still gets on, and
// which path it waits for when it does not. Thread-safe; both share it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/agent/base/timers.h"

namespace muster::worker {

class PathWatch {
 public:
  // `group`: with which other jobs it may hang, as those on one mount do; "": with none.
  explicit PathWatch(std::string group = "")
      : group_(std::move(group)), since_(clock_.SinceBoot()) {}
  const std::string& group() const { return group_; }

  // The job's: it is about to touch this path.
  void Touch(const std::string& path) MUSTER_EXCLUDES(mutex_);
  // It still gets on with the last one.
  void GetOn() MUSTER_EXCLUDES(mutex_);

  // How long it has touched one thing.
  absl::Duration Idle() const MUSTER_EXCLUDES(mutex_);
  // DEADLINE_EXCEEDED, naming that.
  absl::Status Stall() const MUSTER_EXCLUDES(mutex_);

 private:
  const std::string group_;
  mutable RealClock clock_;  // its own: a job that hangs outlives all others
  mutable Mutex mutex_;
  std::string path_ MUSTER_GUARDED_BY(mutex_);
  absl::Duration since_ MUSTER_GUARDED_BY(mutex_);
};

// Calls `on_stall` once, on the loop, if the job that shares the watch is on one thing for longer
// than `patience`; not when the job has let go of it before. `timers` outlives the call.
void WatchForStall(Timers& timers, std::weak_ptr<const PathWatch> watch, absl::Duration patience,
                   std::function<void(const absl::Status&)> on_stall);

}  // namespace muster::worker
