// A thread for work that would hold up the agent's loop: making and removing work folders, fetching
// what is in them. What may hang on a path that users name has threads of its own (side_threads.h).
//
// Jobs run one at a time, in order; what a job returns runs on the loop afterwards.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "worker/agent/base/mailbox.h"

namespace muster::worker {

class BackgroundThread {
 public:
  using Completion = std::function<void()>;
  using Job = std::function<Completion()>;

  explicit BackgroundThread(std::shared_ptr<Mailbox> mailbox);
  // Drops what waits, and the completion of what is under way, which is waited for.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void Enqueue(Job job) MUSTER_EXCLUDES(mutex_);
  // A long job asks now and then, and gives up.
  bool stopping() const { return stopping_; }

 private:
  void Run() MUSTER_EXCLUDES(mutex_);

  const std::shared_ptr<Mailbox> mailbox_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Job> jobs_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace muster::worker
