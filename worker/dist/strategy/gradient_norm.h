// The norm of all gradients together.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace muster::worker {

// The square root of the sum of all squares: 0-dim, fp32 for fp32 gradients, on their device. No
// host read. Not finite where a gradient is not. At least one gradient.
at::Tensor GradientNorm(const std::vector<at::Tensor>& gradients);

}  // namespace muster::worker
