#include "worker/agent/base/mailbox.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace muster::worker {

void Mailbox::Post(Task task) {
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the loop wakes up anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

std::vector<Mailbox::Task> Mailbox::TakeAll() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd_.get(), &count, sizeof count);
  MutexLock lock(mutex_);
  return std::exchange(tasks_, {});
}

void Mailbox::Close() {
  // Declared before the lock, so that the tasks are destroyed after it is released.
  std::vector<Task> dropped;
  MutexLock lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
}

}  // namespace muster::worker
