#include "worker/data/batch_memory.h"

#include <ATen/ops/empty.h>

#include <atomic>

namespace muster::worker {
namespace {

// Nobody but its keeper holds the tensor, or a view of it.
bool IsFree(const at::Tensor& tensor) {
  const bool free = tensor.use_count() == 1 && tensor.storage().use_count() == 1;
  // What its last holder read there came before.
  std::atomic_thread_fence(std::memory_order_acquire);
  return free;
}

}  // namespace

at::Tensor BatchMemory::Take(const std::vector<int64_t>& sizes, c10::ScalarType type) {
  if (pinned_) return at::empty(sizes, at::TensorOptions(type).pinned_memory(true));
  MutexLock lock(mutex_);
  for (const at::Tensor& tensor : kept_) {
    if (tensor.scalar_type() == type && tensor.sizes() == sizes && IsFree(tensor)) return tensor;
  }
  // Batches of another size are over, as at the end of an epoch.
  std::erase_if(kept_, IsFree);
  kept_.push_back(at::empty(sizes, at::TensorOptions(type)));
  return kept_.back();
}

}  // namespace muster::worker
