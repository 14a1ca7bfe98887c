// std::mutex with clang's thread-safety annotations. ThreadSanitizer understands std::mutex; it reports falsely on
// absl::Mutex. A mutex guards named fields and is never held across RPC, SQL, disk, device or a callback.
#pragma once

#include <chrono>
#include <condition_variable>
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

// Wait only in a loop (or through a predicate of the caller's): wake-ups may be spurious.
class CondVar {
 public:
  void Wait(Mutex& mutex) MUSTER_REQUIRES(mutex) MUSTER_NO_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // Returns false when the time ran out.
  bool WaitFor(Mutex& mutex, absl::Duration timeout) MUSTER_REQUIRES(mutex) MUSTER_NO_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // wait_until on the system clock is what ThreadSanitizer of g++ 12 intercepts; wait_for uses a call it does not know.
    const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout);
    const bool in_time = cv_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace muster
