// The dynamic loss scale of fp16 training (Micikevicius et al. 2018): gradients that would vanish
// in half precision are kept by multiplying the loss, and a step whose gradient overflows is
// skipped.
//
// Used by the training step. Everything stays on the device, so that the host need not wait; all
// ranks hold the same numbers, for they see the same reduced gradient. One thread. Throws what
// torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/dist/strategy/strategy.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_state.h"

namespace muster::worker {

class LossScaler {
 public:
  LossScaler(const LossScaleConfig& config, at::Device device);

  // To multiply the loss with: fp32, 0-dim.
  const at::Tensor& scale() const { return scale_; }

  // Divides the gradients of a step by the scale. Returns fp32 [1], the same on all ranks: 1 when
  // one of them or `loss` (0-dim) is not finite, so that the step must be skipped, else 0.
  at::Tensor Unscale(Strategy& strategy, const at::Tensor& loss) const;

  // Ends a step: halves the scale after an overflow, doubles it after growth_interval steps
  // without.
  void Update(const at::Tensor& overflow);

  // fp32 [kNumbers], in the order of Number. Changed by Update.
  enum Number { kScale, kSkipsInRow, kSkippedSteps, kNumbers };
  const at::Tensor& numbers() const { return numbers_; }

  // For a checkpoint. Reading waits for the device.
  LossScaleState state() const;
  void Restore(const LossScaleState& state);

 private:
  const LossScaleConfig config_;
  at::Tensor numbers_;
  at::Tensor scale_;           // a view of numbers_[kScale]
  at::Tensor growth_tracker_;  // int32, 0-dim: steps since the last change
};

}  // namespace muster::worker
