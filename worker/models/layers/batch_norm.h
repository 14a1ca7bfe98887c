// Batch norm (Ioffe & Szegedy 2015), over the batch of one rank or of the whole gang.
//
// Used by the models. Over the gang, mean and variance are those of all ranks' samples, and the
// backward pass sums over all of them too: what one process gets on the global batch, but for
// rounding. Ranks may hold unequal shares, or samples that only stand in for none. Then it is a
// collective, forward and backward: all ranks run the same layers in the same order.
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

// Whose samples make the statistics of training.
struct BatchNormBatch {
  Collectives* gang = nullptr;  // null: this rank by itself; else it outlives the backward pass
  // False: this rank's samples stand in for none. They change no running statistics; over a gang
  // they are in none at all, and give no gradient.
  bool counts = true;
};

// What is thrown when each channel has a single value in training, which has no variance, begins so
// (torch_guard.h makes a failure to start of it).
inline constexpr char kOneValue[] = "batch norm: ";

// x: [B, channels, ...].
at::Tensor BatchNorm(const at::Tensor& x, const BatchNormTensors& tensors, bool training,
                     const BatchNormBatch& batch);

}  // namespace muster::worker
