// The memory of batches: what a batch that is over had, a later one gets. The kernel would clear
// the pages of each batch anew.
//
// Used by the loader. Any thread may call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"

namespace muster::worker {

class BatchMemory {
 public:
  // `pinned`: a GPU can copy from it by itself. torch keeps such memory, and knows when a copy that
  // was begun is over; nothing of it is kept here.
  explicit BatchMemory(bool pinned) : pinned_(pinned) {}

  bool pinned() const { return pinned_; }

  // A tensor on the CPU that nobody else holds, nor a view of it. It holds anything. Throws
  // c10::Error where there is no memory.
  at::Tensor Take(const std::vector<int64_t>& sizes, c10::ScalarType type);

 private:
  const bool pinned_;
  Mutex mutex_;
  std::vector<at::Tensor> kept_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::worker
