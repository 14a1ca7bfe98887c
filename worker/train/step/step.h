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

#include "worker/data/loader.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/optim/optimizer.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_supervisor.h"
#include "worker/train/step/loss_scale.h"
#include "worker/train/step/objective.h"
#include "worker/train/step/step_timer.h"

namespace muster::worker {

// What all ranks know of a step afterwards: equal on each of them, for it was computed from what
// they exchanged.
struct Verdict {
  int64_t step = -1;  // the step that this is about; -1: none yet
  // Loss and gradient. With a loss scale: not too many steps in a row were skipped.
  bool finite = true;
  RequestedStop wish;    // some rank wishes to stop, some rank wishes to save
  double loss = 0;       // mean over the global batch
  double accuracy = 0;   // of the global batch; only when it was asked for
  double grad_norm = 0;  // before clipping
  // With a loss scale only: the scale of the next step, whether this one was skipped for its
  // overflow, and how many were, in a row and in all.
  double loss_scale = 0;
  bool skipped = false;
  int64_t skips_in_row = 0;
  int64_t skipped_steps = 0;
};

// What a step works on. All must outlive it.
struct StepParts {
  Model& model;
  const Objective& objective;
  Optimizer& optimizer;
  Collectives& gang;
  at::Device device;
};

class TrainStep {
 public:
  TrainStep(const Recipe& recipe, const StepParts& parts);
  ~TrainStep();

  // Runs step `step`. On the CPU the verdict is that of this step. On a device it is that of the
  // step before, unless `report` is set, so that the host never waits for the step that it has just
  // queued.
  Verdict Run(int64_t step, const Batch& batch, const RequestedStop& wish, bool report,
              StepTimer& timer);

  // For a checkpoint: waits for the device. All zero without a loss scale.
  LossScaleState loss_scale() const;
  void RestoreLossScale(const LossScaleState& state);

 private:
  class Numbers;

  Verdict Update(int64_t step, bool report);
  at::Tensor Forward(int64_t step, const Batch& part, at::Tensor& control, bool report);
  double Share(const Batch& part) const;
  at::Tensor LossWeight(const Batch& part, const at::Tensor& loss) const;
  at::Tensor StartControl(const RequestedStop& wish) const;

  const Recipe recipe_;
  Model& model_;
  const Objective& objective_;
  Optimizer& optimizer_;
  Collectives& gang_;
  const at::Device device_;
  const std::unique_ptr<GradientSync> sync_;
  const std::unique_ptr<LossScaler> scaler_;  // fp16 only
  const std::unique_ptr<Numbers> numbers_;
};

}  // namespace muster::worker
