#include "controller/engine/loops/loop_thread.h"

#include <pthread.h>

#include <algorithm>

namespace muster::controller {
namespace {

// A wait is never longer, so that a jump of the system clock under it is made good.
constexpr absl::Duration kLongestWait = absl::Seconds(60);
constexpr absl::Duration kShortestWait = absl::Milliseconds(1);

}  // namespace

void LoopThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void LoopThread::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.NotifyOne();
}

void LoopThread::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void LoopThread::Run() {
  ::pthread_setname_np(::pthread_self(), name_);
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      woken_ = false;
    }
    const absl::Duration wait = std::clamp(step_(), kShortestWait, kLongestWait);
    MutexLock lock(mutex_);
    bool in_time = true;
    while (!woken_ && !stopping_ && in_time) in_time = changed_.WaitFor(mutex_, wait);
  }
}

}  // namespace muster::controller
