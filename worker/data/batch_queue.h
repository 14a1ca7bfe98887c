// The batches of a rank's steps, in order, made ahead on a thread of their own while the step
// before is computed, or one by one when they are asked for.
//
// Used by the loop, and by the profile of a recipe. A batch depends on its step alone, so who makes
// it when changes nothing. Bounded: beside the batch that was taken there are `ahead` at most, made
// or in the making.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "common/base/mutex.h"
#include "worker/data/loader.h"

namespace muster::worker {

class BatchQueue {
 public:
  // `make` is called for each step from `first` to below `end`; what it uses must outlive the
  // queue. `ahead` 0: by Next; else by the queue's thread.
  using MakeBatch = std::function<Batch(uint64_t step)>;
  BatchQueue(MakeBatch make, uint64_t first, uint64_t end, int64_t ahead);
  // At any time; waits for a batch that is in the making.
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // The next step's batch; waits until it is made. Throws what making it threw. Requires that there
  // is one: no more calls than steps. On one thread.
  Batch Next();

 private:
  void MakeAll();

  const MakeBatch make_;
  const uint64_t first_;
  const uint64_t end_;
  const size_t ahead_;
  Mutex mutex_;
  CondVar changed_;
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;
  std::deque<std::future<Batch>> made_ MUSTER_GUARDED_BY(mutex_);  // or failed
  uint64_t next_;       // step of the batch that Next gives
  std::thread thread_;  // last: it uses the others
};

}  // namespace muster::worker
