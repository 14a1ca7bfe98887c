// Where a sample stands in the order of training. Plain data: the sampler tells it, and what is
// drawn for the sample follows from it.
#pragma once

#include <cstdint>

namespace muster::worker {

struct EpochPlace {
  uint64_t epoch = 0;
  uint64_t position = 0;  // in the epoch, from 0

  friend bool operator==(const EpochPlace&, const EpochPlace&) = default;
};

}  // namespace muster::worker
