// Data parallelism: the mean of the gradients by c10d's Reducer (Li et al. 2020, "PyTorch
// Distributed").
//
// Used by process_group.cc alone. Buckets stay as they were first built, in reverse order of the
// parameters: rebuilding them after the first step, as Python does, would change the order of sums
// on a ring after a resume (LibTorch facts).
#pragma once

#include <memory>
#include <vector>

#include "worker/dist/collectives.h"

namespace c10d {
class ProcessGroup;
}

namespace muster::worker {

// `group` is a c10d::ProcessGroup; it must outlive the result.
std::unique_ptr<GradientSync> MakeDdp(c10d::ProcessGroup& group,
                                      const std::vector<at::Tensor>& parameters,
                                      const GradientSyncOptions& options);

}  // namespace muster::worker
