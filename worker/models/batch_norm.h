// Batch norm (Ioffe & Szegedy 2015), over the batch of one rank or of the whole gang.
//
// Used by the models. Over the gang, mean and variance are those of all ranks' samples, and the
// backward pass sums over all of them too: what one process gets on the global batch, but for
// rounding. Ranks may hold unequal shares. Then it is a collective, forward and backward: all ranks
// run the same layers in the same order.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::worker {

class Collectives;

inline constexpr double kBatchNormMomentum = 0.1;
inline constexpr double kBatchNormEpsilon = 1e-5;

// Each [channels].
struct BatchNormTensors {
  at::Tensor weight, bias;
  // Updated in training, unless they are undefined: then the batch's statistics count all the same.
  at::Tensor running_mean, running_var;
};

// x: [B, channels, ...]. `gang` may be null: this rank by itself. It must outlive the backward
// pass.
at::Tensor BatchNorm(const at::Tensor& x, const BatchNormTensors& tensors, bool training,
                     Collectives* gang);

}  // namespace muster::worker
