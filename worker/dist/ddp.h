// Data parallelism: the mean of the gradients, exchanged in buckets while the backward pass still
// runs (Li et al. 2020, "PyTorch Distributed").
//
// Used by process_group.cc alone. Over c10d's backends, but not c10d's Reducer: buckets stay as
// they were first built, in reverse order of the parameters, so that a resumed run adds up in the
// same order; control numbers travel along; and shared memory needs no common buffer.
#pragma once

#include <memory>
#include <vector>

#include "worker/dist/collectives.h"

namespace c10d {
class Backend;
}

namespace muster::worker {

struct DdpOptions {
  GradientSyncOptions buckets;
  Compression compression = Compression::kNone;
  bool static_graph = false;
  // The backend takes whole lists of gradients and knows their mean: none is copied into a bucket.
  bool in_place = false;
  // The backend knows the mean of a bucket.
  bool averages = false;
};

// `backend` is kept.
std::unique_ptr<GradientSync> MakeDdp(c10d::Backend& backend,
                                      const std::vector<at::Tensor>& parameters,
                                      const DdpOptions& options);

// What that holds beside the gradients.
int64_t DdpBucketBytes(const std::vector<at::Tensor>& parameters, const DdpOptions& options);

}  // namespace muster::worker
