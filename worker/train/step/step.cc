#include "worker/train/step/step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>

#include <vector>

#include "worker/train/step/amp.h"
#include "worker/train/step/micro_batch.h"
#include "worker/train/step/seeding.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

// Keeps clip_norm / norm finite (torch.nn.utils.clip_grad_norm_ has the same).
constexpr double kClipEpsilon = 1e-6;

// Leaves what is not finite as it is. No host read.
void Clip(const Recipe& recipe, const std::vector<at::Tensor>& gradients, const at::Tensor& norm) {
  if (recipe.clip_norm > 0) {
    const at::Tensor limit = at::full({}, recipe.clip_norm, norm.options());
    const at::Tensor scale = at::clamp_max(limit.div(norm.add(kClipEpsilon)), 1.0);
    at::_foreach_mul_(gradients, scale);
  }
  if (recipe.clip_value > 0) {
    at::_foreach_clamp_min_(gradients, -recipe.clip_value);
    at::_foreach_clamp_max_(gradients, recipe.clip_value);
  }
}

// By what a device decides itself whether to skip the update (Optimizer::Step); the host learns of
// it later. On the CPU it knows by now: undefined. `overflow` is LossScaler's, if there is one.
at::Tensor FoundInf(const at::Tensor& norm, const at::Tensor& overflow) {
  if (norm.is_cpu()) return {};
  if (overflow.defined()) return overflow.select(0, 0);
  return at::isfinite(norm).logical_not().to(at::kFloat);
}

// All of them, those of numbers in one piece.
std::vector<at::Tensor> BuffersOf(const Model& model) {
  std::vector<at::Tensor> buffers;
  if (model.flat_buffers().defined()) buffers.push_back(model.flat_buffers());
  for (const ModelTensor& buffer : model.buffers()) {
    if (!buffer.tensor.is_floating_point()) buffers.push_back(buffer.tensor);
  }
  return buffers;
}

}  // namespace

TrainStep::TrainStep(const Trainer& trainer)
    : trainer_(trainer),
      strategy_(*trainer.strategy),
      scaler_(trainer.recipe.precision == Precision::kFp16
                  ? std::make_unique<LossScaler>(trainer.recipe.loss_scale, trainer.device)
                  : nullptr),
      agreement_(trainer.device, scaler_ != nullptr, trainer.recipe.loss_scale.max_skips) {}

absl::StatusOr<StepResult> TrainStep::Run(int64_t step, const std::optional<Batch>& batch,
                                          const RequestedStop& requested, bool settle,
                                          StepTimer& timer) {
  // Nobody waits for a rank that is alone.
  if (!batch.has_value() && trainer_.gang.world_size() == 1)
    return StepResult{.step = step, .requested = {true, requested.save}, .left_off = true};
  return TorchGuardOr([&]() -> absl::StatusOr<StepResult> {
    const Prepared prepared = Prepare(step, batch, requested, settle);
    const StepNumbers numbers = Body(prepared, timer);
    return Collect(step, numbers, settle, timer);
  });
}

TrainStep::Prepared TrainStep::Prepare(int64_t step, const std::optional<Batch>& given,
                                       const RequestedStop& requested, bool settle) {
  const Recipe& recipe = trainer_.recipe;
  SeedStep(recipe.seed, step, trainer_.gang.rank(), trainer_.device);
  strategy_.BeginStep();
  KeepBuffers();
  const Batch batch = given.has_value() ? *given : StandIns(step);
  Prepared prepared;
  for (int64_t index = 0; index < recipe.accumulate; ++index)
    prepared.parts.push_back(MicroBatch(batch, index, recipe.accumulate));
  const bool stop = requested.stop || !given.has_value();
  prepared.control = agreement_.Begin({stop, requested.save}, /*leaves_off=*/!given.has_value());
  prepared.sample_seed = SampleSeed(recipe.seed, step);
  prepared.learning_rate = LearningRate(recipe.schedule, step);
  prepared.with_accuracy = settle;
  return prepared;
}

// On a device all of it is queued: the host reads nothing, and waits for nothing.
StepNumbers TrainStep::Body(const Prepared& prepared, StepTimer& timer) {
  ForwardBackward(prepared);
  timer.Mark(StepPart::kForwardBackward);
  timer.Move(StepPart::kForwardBackward, StepPart::kCommunication,
             absl::ToDoubleSeconds(strategy_.exchange_in_backward()));
  strategy_.Await();
  if (trainer_.gang.world_size() > 1) timer.Mark(StepPart::kCommunication);
  return Update(prepared.learning_rate);
}

// Nothing that came of the gang is believed before Check.
StepResult TrainStep::Collect(int64_t step, const StepNumbers& numbers, bool settle,
                              StepTimer& timer) {
  const StepResult result = agreement_.Read(step, numbers, settle);
  trainer_.gang.Check();
  if (result.left_off) RestoreBuffers();
  timer.Mark(StepPart::kOptimizer);
  return result;
}

// A forward pass changes batch norm's statistics, and of a step that is left off nothing may stay.
// A device does not come back to them: nothing is saved of it then.
void TrainStep::KeepBuffers() {
  if (!trainer_.device.is_cpu() || trainer_.gang.world_size() == 1) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> buffers = BuffersOf(trainer_.model);
  for (size_t i = buffers_before_.size(); i < buffers.size(); ++i)
    buffers_before_.push_back(at::empty_like(buffers[i]));
  if (!buffers.empty()) at::_foreach_copy_(buffers_before_, buffers);
}

void TrainStep::RestoreBuffers() {
  if (buffers_before_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(BuffersOf(trainer_.model), buffers_before_);
}

Batch TrainStep::StandIns(int64_t step) const {
  Batch batch = trainer_.loader.StandIns(static_cast<uint64_t>(step), trainer_.recipe.accumulate);
  batch.inputs = batch.inputs.to(trainer_.device);
  batch.targets = batch.targets.to(trainer_.device);
  return batch;
}

// Micro-batches draw one after the other from the generators: each has its own dropout, and a
// resume the same.
void TrainStep::ForwardBackward(const Prepared& prepared) {
  for (const Batch& part : prepared.parts) {
    const at::Tensor loss = Forward(prepared, part);
    const at::Tensor weight = LossWeight(part, loss);
    if (&part != &prepared.parts.back()) {
      strategy_.Accumulate(loss, weight);
    } else {
      strategy_.Backward(loss, weight, prepared.control);
    }
  }
}

// From the reduced gradient to new weights, if all is well: unscale, clip, step.
StepNumbers TrainStep::Update(double learning_rate) {
  const at::NoGradGuard no_grad;
  StepNumbers numbers = {.control = strategy_.control()};
  if (agreement_.IsLeftOff(numbers)) return numbers;
  at::Tensor overflow;  // fp32 [1]
  if (scaler_ != nullptr) {
    overflow = scaler_->Unscale(strategy_, Agreement::LossOf(numbers.control));
    scaler_->Update(overflow);
    numbers.loss_scale = scaler_->numbers();
  }
  numbers.norm = strategy_.Norm();
  if (agreement_.MustSkip(numbers)) return numbers;
  Clip(trainer_.recipe, strategy_.gradients(), numbers.norm);
  strategy_.Update([&](const std::vector<at::Tensor>& gradients) {
    trainer_.optimizer->Step(gradients, learning_rate, FoundInf(numbers.norm, overflow));
  });
  return numbers;
}

// Forward pass of a micro-batch; what is told of it is added to the control numbers.
at::Tensor TrainStep::Forward(const Prepared& prepared, const Batch& part) {
  const Recipe& recipe = trainer_.recipe;
  LossAndCorrect result;
  {
    const AutocastScope autocast(recipe.precision, trainer_.device);
    const ModelOutput output =
        trainer_.model.ForwardOf({.ids = part.ids,
                                  .seed = prepared.sample_seed,
                                  .count = part.count > 0,
                                  .head_apart = trainer_.objective.takes_head_apart()},
                                 part.inputs);
    result = trainer_.objective.TrainingLossAndCorrect(output, part, prepared.with_accuracy);
  }
  const at::NoGradGuard no_grad;
  agreement_.Add(result.loss, result.correct, part.inputs.size(0), Share(part), prepared.control);
  return result.loss;
}

// What the mean loss of a micro-batch counts in the mean over ranks, so that this is the mean over
// all samples: ranks may hold unequal shares of the batch, and micro-batches of the rank's.
double TrainStep::Share(const Batch& part) const {
  return static_cast<double>(part.count) * trainer_.gang.world_size() /
         static_cast<double>(part.global_count);
}

at::Tensor TrainStep::LossWeight(const Batch& part, const at::Tensor& loss) const {
  const at::NoGradGuard no_grad;
  at::Tensor weight = at::full({}, Share(part), loss.options());
  return scaler_ == nullptr ? weight : weight.mul_(scaler_->scale());
}

LossScaleState TrainStep::loss_scale() const {
  return scaler_ == nullptr ? LossScaleState() : scaler_->state();
}

void TrainStep::RestoreLossScale(const LossScaleState& state) {
  const at::NoGradGuard no_grad;
  if (scaler_ != nullptr) scaler_->Restore(state);
}

}  // namespace muster::worker
