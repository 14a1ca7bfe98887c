#include "common/object_store/cache/prefetch_queue.h"

#include <algorithm>
#include <utility>

namespace muster {

PrefetchQueue::PrefetchQueue(int threads, size_t max_hints, FetchBlock fetch)
    : max_hints_(max_hints), fetch_(std::move(fetch)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

PrefetchQueue::~PrefetchQueue() {
  {
    MutexLock lock(mutex_);
    is_stopped_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool PrefetchQueue::Add(const std::string& path, uint64_t first, uint64_t last) {
  {
    MutexLock lock(mutex_);
    // Ranges that follow one another, or lie in one block, are one hint.
    if (!waiting_.empty()) {
      Hint& newest = waiting_.back();
      const bool touches =
          first >= newest.next && (first <= newest.last || first - 1 == newest.last);
      if (newest.path == path && touches) {
        newest.last = std::max(newest.last, last);
        return true;
      }
    }
    if (waiting_.size() >= max_hints_) return false;
    waiting_.push_back({hints_++, path, first, last});
  }
  changed_.NotifyAll();
  return true;
}

void PrefetchQueue::Drop(uint64_t id) {
  MutexLock lock(mutex_);
  std::erase_if(waiting_, [&](const Hint& hint) { return hint.id == id; });
}

void PrefetchQueue::Run() {
  for (;;) {
    Hint hint;
    {
      MutexLock lock(mutex_);
      while (!is_stopped_ && waiting_.empty()) changed_.Wait(mutex_);
      if (is_stopped_) return;
      hint = waiting_.front();
      // Others take the blocks behind it at the same time.
      if (hint.next == hint.last) {
        waiting_.pop_front();
      } else {
        ++waiting_.front().next;
      }
    }
    if (!fetch_(hint.path, hint.next)) Drop(hint.id);
  }
}

}  // namespace muster
