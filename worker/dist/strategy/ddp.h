// Data parallelism: every rank holds all weights, and gradients become their mean, exchanged in
// buckets while the backward pass still runs (Li et al. 2020, "PyTorch Distributed").
//
// Used by gang.cc alone. Over c10d's backends, but not c10d's Reducer: buckets stay as they were
// first built, in reverse order of the parameters, so that a resumed run adds up in the same order;
// control numbers travel along; and shared memory needs no common buffer. A gang of one exchanges
// nothing, and pays for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/dist/strategy/strategy.h"

namespace muster::worker {

struct ProcessGroup;

struct DdpOptions {
  StrategyOptions buckets;
  Compression compression = Compression::kNone;
  bool static_graph = false;
};

// `group` must outlive it. What is in its place may change between two steps.
std::unique_ptr<Strategy> MakeDdp(const ProcessGroup& group,
                                  const std::vector<at::Tensor>& parameters,
                                  const DdpOptions& options);

// What that holds beside the gradients. `in_place` as in ProcessGroup.
int64_t DdpBufferBytes(const std::vector<at::Tensor>& parameters, Compression compression,
                       bool in_place);

}  // namespace muster::worker
