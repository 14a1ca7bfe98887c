// Ctrl-C while a verb waits or watches: the verb ends, the job goes on.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace muster::cli {

// While one lives, SIGINT does not end the process: it calls what was Set (on a thread of its own,
// once) and wakes Pause. At most one at a time, made and destroyed by the same thread. Without
// one, SIGINT ends the process as usual.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // What to do at an interrupt from now on: at once when there has been one, never again after
  // Clear() has returned. Requires that `action` blocks on nothing and does not call this object.
  void Set(std::function<void()> action);
  void Clear() { Set(nullptr); }

  bool interrupted();

  // Forgets the interrupt that there was: from now on the next one counts. Requires Clear().
  void Reset();

  // Waits for `duration`; false as soon as there has been an interrupt.
  bool Pause(absl::Duration duration);

 private:
  void Loop();

  UniqueFd event_;  // written by the signal handler, and by the destructor
  Mutex mutex_;
  CondVar changed_;
  std::function<void()> action_ MUSTER_GUARDED_BY(mutex_);
  bool interrupted_ MUSTER_GUARDED_BY(mutex_) = false;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster::cli
