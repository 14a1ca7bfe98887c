#include "worker/train/step/step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <optional>

#include "worker/train/step/amp.h"
#include "worker/train/step/gradient_norm.h"
#include "worker/train/step/micro_batch.h"
#include "worker/train/step/seeding.h"

namespace muster::worker {
namespace {

// The numbers that ride along with the gradients. Each rank adds its own; all read the mean.
enum ControlIndex { kStop, kSave, kLoss, kAccuracy, kControlSize };

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

}  // namespace

// Brings [control numbers..., gradient norm, loss scale's numbers...] to the host: at once from the
// CPU, one step late from a device.
class TrainStep::Numbers {
 public:
  // `scaled`: there is a loss scale, and its overflows may follow each other `max_skips` times.
  Numbers(at::Device device, bool scaled, int64_t max_skips)
      : device_(device), scaled_(scaled), max_skips_(max_skips) {
    if (device_.is_cpu()) return;
    for (Slot& slot : slots_) {
      slot.host = at::empty({kControlSize + 1 + (scaled ? LossScaler::kNumbers : 0)},
                            at::TensorOptions(at::kFloat).pinned_memory(true));
      slot.copied.emplace(device_.type());
    }
  }

  // `norm` is 0-dim; `scale` the scaler's numbers, if there is one. Returns the verdict on the
  // newest step that need not be waited for, or on this one if `now`: then with whatever was not
  // said yet of the step before.
  Verdict Read(int64_t step, const at::Tensor& control, const at::Tensor& norm,
               const at::Tensor& scale, bool now) {
    if (device_.is_cpu()) {
      return ToVerdict(step, control.const_data_ptr<float>(), norm.const_data_ptr<float>(),
                       scaled_ ? scale.const_data_ptr<float>() : nullptr);
    }
    Slot& slot = slots_[step % 2];
    Slot& before = slots_[(step + 1) % 2];
    std::vector<at::Tensor> parts = {control, norm.view({1})};
    if (scaled_) parts.push_back(scale);
    slot.host.copy_(at::cat(parts), /*non_blocking=*/true);
    slot.copied->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    slot.step = step;
    slot.told = false;
    const Verdict earlier = Await(before);
    if (!now || !earlier.finite) return earlier;
    Verdict verdict = Await(slot);
    verdict.wish.stop |= earlier.wish.stop;
    verdict.wish.save |= earlier.wish.save;
    return verdict;
  }

 private:
  struct Slot {
    int64_t step = -1;
    bool told = true;  // its verdict was given out
    at::Tensor host;
    std::optional<c10::Event> copied;
  };

  Verdict Await(Slot& slot) const {
    if (slot.told) return Verdict();
    slot.copied->synchronize();
    slot.told = true;
    const float* numbers = slot.host.const_data_ptr<float>();
    return ToVerdict(slot.step, numbers, numbers + kControlSize, numbers + kControlSize + 1);
  }

  // `scale` is read only when there is a loss scale.
  Verdict ToVerdict(int64_t step, const float* control, const float* norm,
                    const float* scale) const {
    Verdict verdict;
    verdict.step = step;
    verdict.finite = std::isfinite(control[kLoss]) && std::isfinite(*norm);
    verdict.wish = {control[kStop] > 0, control[kSave] > 0};
    verdict.loss = control[kLoss];
    verdict.accuracy = control[kAccuracy];
    verdict.grad_norm = *norm;
    if (!scaled_) return verdict;
    verdict.loss_scale = scale[LossScaler::kScale];
    verdict.skips_in_row = static_cast<int64_t>(scale[LossScaler::kSkipsInRow]);
    verdict.skipped_steps = static_cast<int64_t>(scale[LossScaler::kSkippedSteps]);
    verdict.skipped = verdict.skips_in_row > 0;
    verdict.finite = verdict.skips_in_row < max_skips_;
    return verdict;
  }

  const at::Device device_;
  const bool scaled_;
  const int64_t max_skips_;
  Slot slots_[2];
};

TrainStep::TrainStep(const Recipe& recipe, const StepParts& parts)
    : recipe_(recipe),
      model_(parts.model),
      objective_(parts.objective),
      optimizer_(parts.optimizer),
      gang_(parts.gang),
      device_(parts.device),
      sync_(gang_.MakeGradientSync(model_.TrainedParameters(), {.control_size = kControlSize})),
      scaler_(recipe.precision == Precision::kFp16
                  ? std::make_unique<LossScaler>(recipe.loss_scale, device_)
                  : nullptr),
      numbers_(
          std::make_unique<Numbers>(device_, scaler_ != nullptr, recipe.loss_scale.max_skips)) {}

TrainStep::~TrainStep() = default;

Verdict TrainStep::Run(int64_t step, const Batch& batch, const RequestedStop& wish, bool report,
                       StepTimer& timer) {
  // Micro-batches draw one after the other from the generators: each has its own dropout, and a
  // resume the same.
  SeedStep(recipe_.seed, step, gang_.rank(), device_);
  sync_->BeginStep();
  at::Tensor control = StartControl(wish);
  for (int64_t index = 0; index + 1 < recipe_.accumulate; ++index) {
    const Batch part = MicroBatch(batch, index, recipe_.accumulate);
    const at::Tensor loss = Forward(step, part, control, report);
    sync_->Accumulate(loss, LossWeight(part, loss));
  }
  const Batch last = MicroBatch(batch, recipe_.accumulate - 1, recipe_.accumulate);
  const at::Tensor loss = Forward(step, last, control, report);
  sync_->Backward(loss, LossWeight(last, loss), control);
  timer.Mark(StepPart::kForwardBackward);
  timer.Move(StepPart::kForwardBackward, StepPart::kCommunication,
             absl::ToDoubleSeconds(sync_->last_wait()));

  at::NoGradGuard no_grad;
  const Verdict verdict = Update(step, report);
  timer.Mark(StepPart::kOptimizer);
  return verdict;
}

// From the reduced gradient to new weights, if all is well.
Verdict TrainStep::Update(int64_t step, bool report) {
  const std::vector<at::Tensor>& gradients = sync_->gradients();
  const at::Tensor& control = sync_->control();
  at::Tensor overflow;  // fp32 [1]
  if (scaler_ != nullptr) {
    overflow = scaler_->Unscale(gradients, control.select(0, kLoss));
    scaler_->Update(overflow);
  }
  const at::Tensor norm = GradientNorm(gradients);
  const Verdict verdict = numbers_->Read(
      step, control, norm, scaler_ != nullptr ? scaler_->numbers() : at::Tensor(), report);
  // On the CPU the verdict is about this very step. A device decides by itself whether to skip the
  // update; the host learns of it later.
  at::Tensor found_inf;
  if (!device_.is_cpu()) {
    found_inf = scaler_ != nullptr ? overflow.select(0, 0)
                                   : at::isfinite(norm).logical_not().to(at::kFloat);
  }
  if (!verdict.finite || (verdict.skipped && device_.is_cpu())) return verdict;
  Clip(recipe_, gradients, norm);
  optimizer_.Step(gradients, LearningRate(recipe_.schedule, step), found_inf);
  return verdict;
}

// Forward pass of a micro-batch; what is told of it is added to `control`.
at::Tensor TrainStep::Forward(int64_t step, const Batch& part, at::Tensor& control, bool report) {
  ModelOutput output;
  at::Tensor loss;
  {
    AutocastScope autocast(recipe_.precision, device_);
    output =
        model_.ForwardOf({part.ids, SampleSeed(recipe_.seed, step), part.count > 0}, part.inputs);
    loss = objective_.TrainingLoss(output, part);
  }
  at::NoGradGuard no_grad;
  const double share = Share(part);
  at::Tensor correct;
  if (report) correct = objective_.Correct(output, part);
  if (correct.defined()) {
    const double samples = static_cast<double>(part.inputs.size(0));
    control.select(0, kAccuracy).add_(correct.to(at::kFloat).mul(share / samples));
  }
  if (device_.is_cpu()) {
    control.data_ptr<float>()[kLoss] += static_cast<float>(loss.item<double>() * share);
  } else {
    control.select(0, kLoss).add_(loss.detach().mul(share));
  }
  return loss;
}

// What the mean loss of a micro-batch counts in the mean over ranks, so that this is the mean over
// all samples: ranks may hold unequal shares of the batch, and micro-batches of the rank's.
double TrainStep::Share(const Batch& part) const {
  return static_cast<double>(part.count) * gang_.world_size() /
         static_cast<double>(part.global_count);
}

at::Tensor TrainStep::LossWeight(const Batch& part, const at::Tensor& loss) const {
  at::NoGradGuard no_grad;
  at::Tensor weight = at::full({}, Share(part), loss.options());
  return scaler_ == nullptr ? weight : weight.mul_(scaler_->scale());
}

at::Tensor TrainStep::StartControl(const RequestedStop& wish) const {
  at::Tensor control =
      at::zeros({kControlSize}, at::TensorOptions(at::kFloat).pinned_memory(!device_.is_cpu()));
  float* numbers = control.data_ptr<float>();
  numbers[kStop] = wish.stop ? 1.0f : 0.0f;
  numbers[kSave] = wish.save ? 1.0f : 0.0f;
  return device_.is_cpu() ? control : control.to(device_, /*non_blocking=*/true);
}

LossScaleState TrainStep::loss_scale() const {
  return scaler_ == nullptr ? LossScaleState() : scaler_->state();
}

void TrainStep::RestoreLossScale(const LossScaleState& state) {
  at::NoGradGuard no_grad;
  if (scaler_ != nullptr) scaler_->Restore(state);
}

}  // namespace muster::worker
