// Puts torch's generators where a step wants them.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "worker/train/run/seed_purpose.h"

namespace muster::worker {

// Puts torch's generators of the CPU and of `device` where (seed, step, rank) says, so that dropout
// is the same whether the run was resumed or not.
void SeedStep(uint64_t seed, int64_t step, int rank, c10::Device device);

}  // namespace muster::worker
