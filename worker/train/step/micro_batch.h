// A rank's batch in parts, for gradients that are accumulated over them.
#pragma once

#include <cstdint>

#include "worker/data/loader.h"

namespace muster::worker {

// Part `index` of `parts` as equal ones as there can be; views of the batch's tensors. `count` says
// how many of its samples count, as the batch's does: a batch of fewer samples than parts gives
// some parts a sample of another that counts 0, for every rank goes through as many parts. Requires
// index < parts.
Batch MicroBatch(const Batch& batch, int64_t index, int64_t parts);

}  // namespace muster::worker
