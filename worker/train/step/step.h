// One optimizer step of the whole gang: forward and backward for each micro-batch, the exchange of
// gradients with the last, agreement, clip, update.
//
// Used by the loop. All ranks call Run in step. A step is a transaction for the weights: when the
// gradient is not finite, neither weights nor optimizer change. One thread. Throws what torch
// throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "worker/train/step/agreement.h"
#include "worker/train/step/loss_scale.h"
#include "worker/train/step/step_timer.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

class TrainStep {
 public:
  // Keeps the recipe as it is now.
  explicit TrainStep(const Trainer& trainer);

  // Runs step `step`. `requested` is what this rank was asked for. On the CPU the result is that of
  // this step. On a device it is that of the step before, unless `settle` is set, so that the host
  // never waits for the step that it has just queued.
  StepResult Run(int64_t step, const Batch& batch, const RequestedStop& requested, bool settle,
                 StepTimer& timer);

  // For a checkpoint: waits for the device. All zero without a loss scale.
  LossScaleState loss_scale() const;
  void RestoreLossScale(const LossScaleState& state);

 private:
  void ForwardBackward(int64_t step, const Batch& batch, at::Tensor control, bool with_accuracy);
  StepNumbers Update(double learning_rate);
  at::Tensor Forward(int64_t step, const Batch& part, bool with_accuracy, at::Tensor& control);
  double Share(const Batch& part) const;
  at::Tensor LossWeight(const Batch& part, const at::Tensor& loss) const;

  const Trainer trainer_;
  const std::unique_ptr<GradientSync> sync_;
  const std::unique_ptr<LossScaler> scaler_;  // fp16 only
  Agreement agreement_;
};

}  // namespace muster::worker
