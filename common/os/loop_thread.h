// A thread that runs one step again and again: when it is woken, or when the time that the last
// step named is over.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace muster {

class LoopThread {
 public:
  // `name`: a literal of at most 15 characters, as `top -H` shows it. `step` returns how long to
  // wait for the next run, unless woken before; infinite: only when woken.
  LoopThread(const char* name, std::function<absl::Duration()> step)
      : name_(name), step_(std::move(step)) {}
  ~LoopThread() { Stop(); }

  // The first step comes after `wait`, at most a minute.
  void Start(absl::Duration wait = absl::ZeroDuration());
  // Thread-safe; a wake-up during a step brings one more step.
  void Wake();
  // Waits for the current step. Idempotent; not from the thread itself.
  void Stop();

 private:
  void Run(absl::Duration wait);
  // False: stopped.
  bool WaitedOrWoken(absl::Duration wait) MUSTER_EXCLUDES(mutex_);

  const char* const name_;
  std::function<absl::Duration()> step_;
  std::thread thread_;
  Mutex mutex_;
  CondVar changed_;
  bool woken_ MUSTER_GUARDED_BY(mutex_) = false;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
