// How other threads (gRPC's, side threads) reach the agent's loop: they leave a task, the
// loop runs it.
//
// Shared by the loop and by whoever may still call after the loop is gone; tasks left then are
// dropped.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

class Mailbox {
 public:
  using Task = std::function<void()>;

  // `wake_fd` is an eventfd that becomes readable with each task.
  explicit Mailbox(UniqueFd wake_fd) : wake_fd_(std::move(wake_fd)) {}

  // Any thread.
  void Post(Task task) MUSTER_EXCLUDES(mutex_);

  // Counts those that will still post, e.g. streams that gRPC has not finished; see
  // EventLoop::FinishSenders.
  void AddSender() { ++senders_; }
  void RemoveSender() { --senders_; }
  int senders() const { return senders_; }

  // The loop's thread only.
  int wake_fd() const { return wake_fd_.get(); }
  std::vector<Task> TakeAll() MUSTER_EXCLUDES(mutex_);
  // Drops what is there and what will come.
  void Close() MUSTER_EXCLUDES(mutex_);

 private:
  const UniqueFd wake_fd_;
  std::atomic<int> senders_ = 0;
  Mutex mutex_;
  std::vector<Task> tasks_ MUSTER_GUARDED_BY(mutex_);
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::worker
