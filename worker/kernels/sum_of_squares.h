// The sum of squares of a run of numbers on a CPU. Used by GradientNorm, which needs it each step.
// Knows no torch.
#pragma once

#include <cstdint>

namespace muster::worker {

// Not finite where a number is not.
double SumOfSquares(const float* numbers, int64_t count);

}  // namespace muster::worker
