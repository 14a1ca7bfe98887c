// std::mutex with clang's thread-safety annotations. ThreadSanitizer understands std::mutex; it
// reports falsely on absl::Mutex. A mutex guards named fields and is never held across RPC, SQL,
// disk, device or a callback.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <mutex>

#include "absl/time/time.h"

#if defined(__clang__)
#define MUSTER_ANNOTATION(x) __attribute__((x))
#else
#define MUSTER_ANNOTATION(x)
#endif
#define MUSTER_CAPABILITY(x) MUSTER_ANNOTATION(capability(x))
#define MUSTER_SCOPED_CAPABILITY MUSTER_ANNOTATION(scoped_lockable)
#define MUSTER_GUARDED_BY(x) MUSTER_ANNOTATION(guarded_by(x))
#define MUSTER_REQUIRES(...) MUSTER_ANNOTATION(requires_capability(__VA_ARGS__))
#define MUSTER_EXCLUDES(...) MUSTER_ANNOTATION(locks_excluded(__VA_ARGS__))
#define MUSTER_ACQUIRE(...) MUSTER_ANNOTATION(acquire_capability(__VA_ARGS__))
#define MUSTER_RELEASE(...) MUSTER_ANNOTATION(release_capability(__VA_ARGS__))
#define MUSTER_NO_ANALYSIS MUSTER_ANNOTATION(no_thread_safety_analysis)

namespace muster {

class MUSTER_CAPABILITY("mutex") Mutex {
 public:
  void Lock() MUSTER_ACQUIRE() { mutex_.lock(); }
  void Unlock() MUSTER_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class MUSTER_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MUSTER_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() MUSTER_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Wait only in a loop (or through a predicate of the caller's): wake-ups may be spurious. A
// condition variable of pthread's, for ThreadSanitizer of g++ 12 does not know the calls by which
// std::condition_variable waits on the monotonic clock.
class CondVar {
 public:
  CondVar() {
    pthread_condattr_t attributes;
    ::pthread_condattr_init(&attributes);
    ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    ::pthread_cond_init(&cv_, &attributes);
    ::pthread_condattr_destroy(&attributes);
  }
  ~CondVar() { ::pthread_cond_destroy(&cv_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex& mutex) MUSTER_REQUIRES(mutex) MUSTER_NO_ANALYSIS {
    ::pthread_cond_wait(&cv_, mutex.mutex_.native_handle());
  }
  // Returns false when the time ran out. Somebody who sets the wall clock changes nothing.
  bool WaitFor(Mutex& mutex, absl::Duration timeout) MUSTER_REQUIRES(mutex) MUSTER_NO_ANALYSIS {
    // In range of the clock, whatever the caller calls for ever.
    constexpr absl::Duration kLongest = absl::Hours(24 * 365);
    timespec now;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const timespec deadline =
        absl::ToTimespec(absl::DurationFromTimespec(now) + std::min(timeout, kLongest));
    return ::pthread_cond_timedwait(&cv_, mutex.mutex_.native_handle(), &deadline) != ETIMEDOUT;
  }
  void NotifyOne() { ::pthread_cond_signal(&cv_); }
  void NotifyAll() { ::pthread_cond_broadcast(&cv_); }

 private:
  pthread_cond_t cv_;
};

}  // namespace muster
