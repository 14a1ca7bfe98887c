// A c10d backend for the ranks of one host without GPUs: sums, means and broadcasts through
// shared memory, on the calling thread. Each call returns with its work done.
//
// Used by process_group.cc and by ddp.cc, which hands whole lists of gradients to
// allreduce_coalesced: they need no common buffer, for the slots of the shared memory are one.
// Every rank gets the same bits, whatever the buckets (rank_sum.h in worker/kernels). CPU tensors
// without gaps, laid out alike on all ranks. A lost or stopped peer is a c10::DistBackendError on
// the calling thread.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "worker/dist/shared_memory/shared_memory_gang.h"

namespace muster::worker {

inline constexpr char kSharedMemoryName[] = "shared_memory";

c10::intrusive_ptr<c10d::Backend> MakeSharedMemoryBackend(std::unique_ptr<SharedMemoryGang> gang);

}  // namespace muster::worker
