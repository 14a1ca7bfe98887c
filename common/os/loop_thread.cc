#include "common/os/loop_thread.h"

#include <pthread.h>

#include <algorithm>

namespace muster {
namespace {

// A wait is never longer, so that a jump of the system clock under it is made good.
constexpr absl::Duration kLongestWait = absl::Seconds(60);
constexpr absl::Duration kShortestWait = absl::Milliseconds(1);

}  // namespace

void LoopThread::Start(absl::Duration wait) {
  thread_ = std::thread([this, wait] { Run(wait); });
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

void LoopThread::Run(absl::Duration wait) {
  ::pthread_setname_np(::pthread_self(), name_);
  while (WaitedOrWoken(wait)) wait = std::max(step_(), kShortestWait);
}

bool LoopThread::WaitedOrWoken(absl::Duration wait) {
  MutexLock lock(mutex_);
  bool in_time = wait > absl::ZeroDuration();
  while (!woken_ && !stopping_ && in_time) {
    in_time = changed_.WaitFor(mutex_, std::min(wait, kLongestWait));
  }
  woken_ = false;
  return !stopping_;
}

}  // namespace muster
