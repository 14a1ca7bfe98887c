// One optimizer step of the whole gang: forward and backward for each micro-batch, the exchange of
// gradients with the last, agreement, clip, update.
//
// Used by the loop. All ranks call Run in step. A step is a transaction for the weights: when the
// gradient is not finite, neither weights nor optimizer change. How the ranks share it is the
// trainer's strategy's to say, which may have others of them from one step to the next (gang.h).
// One thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/train/step/agreement.h"
#include "worker/train/step/loss_scale.h"
#include "worker/train/step/step_timer.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

class TrainStep {
 public:
  // Keeps the recipe as it is now. A trainer with an optimizer and a strategy, whose control
  // numbers are Agreement's.
  explicit TrainStep(const Trainer& trainer);

  // Runs step `step`. `requested` is what this rank was asked for. Without a batch, which a rank
  // that was asked to stop no longer waits for, no rank does the step: this one takes part in it so
  // that the others come through, and all learn that it is left off. On the CPU the result is that
  // of this step. On a device it is that of the step before, unless `settle` is set, so that the
  // host never waits for the step that it has just queued. Nothing is thrown: fails as
  // torch_guard.h says. After PEER_LOST on the CPU this rank's weights are those of before the
  // step; another rank may have done it.
  absl::StatusOr<StepResult> Run(int64_t step, const std::optional<Batch>& batch,
                                 const RequestedStop& requested, bool settle, StepTimer& timer);

  // For a checkpoint: waits for the device. All zero without a loss scale.
  LossScaleState loss_scale() const;
  void RestoreLossScale(const LossScaleState& state);

 private:
  // What the host has to say of a step.
  struct Prepared {
    std::vector<Batch> parts;  // micro-batches
    at::Tensor control;        // of this rank
    uint64_t sample_seed = 0;
    double learning_rate = 0;
    bool with_accuracy = false;
  };
  Prepared Prepare(int64_t step, const std::optional<Batch>& batch, const RequestedStop& requested,
                   bool settle);
  void KeepBuffers();
  void RestoreBuffers();
  Batch StandIns(int64_t step) const;
  StepNumbers Body(const Prepared& prepared, StepTimer& timer);
  StepResult Collect(int64_t step, const StepNumbers& numbers, bool settle, StepTimer& timer);

  void ForwardBackward(const Prepared& prepared);
  StepNumbers Update(double learning_rate);
  at::Tensor Forward(const Prepared& prepared, const Batch& part);
  double Share(const Batch& part) const;
  at::Tensor LossWeight(const Batch& part, const at::Tensor& loss) const;

  const Trainer trainer_;
  Strategy& strategy_;
  const std::unique_ptr<LossScaler> scaler_;  // fp16 only
  Agreement agreement_;
  // The model's buffers as they were before the step; empty: they may stay as they come.
  std::vector<at::Tensor> buffers_before_;
};

}  // namespace muster::worker
