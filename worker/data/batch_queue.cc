#include "worker/data/batch_queue.h"

#include <utility>

#include "common/base/check.h"

namespace muster::worker {

BatchQueue::BatchQueue(MakeBatch make, uint64_t first, uint64_t end, int64_t ahead)
    : make_(std::move(make)),
      first_(first),
      end_(end),
      ahead_(static_cast<size_t>(ahead)),
      next_(first) {
  if (ahead_ > 0) thread_ = std::thread([this] { MakeAll(); });
}

BatchQueue::~BatchQueue() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

Batch BatchQueue::Next() {
  MUSTER_CHECK(next_ < end_, "each step takes one batch");
  const uint64_t step = next_++;
  if (ahead_ == 0) return make_(step);
  std::future<Batch> batch;
  {
    MutexLock lock(mutex_);
    while (made_.empty()) changed_.Wait(mutex_);
    batch = std::move(made_.front());
    made_.pop_front();
    changed_.NotifyAll();
  }
  return batch.get();
}

void BatchQueue::MakeAll() {
  for (uint64_t step = first_; step < end_; ++step) {
    {
      MutexLock lock(mutex_);
      while (made_.size() >= ahead_ && !closed_) changed_.Wait(mutex_);
      if (closed_) return;
    }
    std::packaged_task<Batch()> task([this, step] { return make_(step); });
    task();  // what it throws is in its future
    MutexLock lock(mutex_);
    made_.push_back(task.get_future());
    changed_.NotifyAll();
  }
}

}  // namespace muster::worker
