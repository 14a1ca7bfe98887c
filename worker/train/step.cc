#include "worker/train/step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <optional>

#include "worker/train/amp.h"
#include "worker/train/seeding.h"

namespace muster::worker {
namespace {

// The numbers that ride along with the gradients. Each rank adds its own; all read the mean.
enum ControlIndex { kStop, kSave, kLoss, kAccuracy, kControlSize };

// Keeps clip_norm / norm finite (torch.nn.utils.clip_grad_norm_ has the same).
constexpr double kClipEpsilon = 1e-6;

std::vector<at::Tensor> Tensors(const std::vector<ModelTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const ModelTensor& entry : named) tensors.push_back(entry.tensor);
  return tensors;
}

at::Tensor GlobalNorm(const std::vector<at::Tensor>& gradients) {
  if (gradients.size() == 1) return at::linalg_vector_norm(gradients.front(), 2);
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
}

}  // namespace

// Brings [control numbers..., gradient norm] to the host: at once from the CPU, one step late from
// a device.
class TrainStep::Numbers {
 public:
  explicit Numbers(at::Device device) : device_(device) {
    if (device_.is_cpu()) return;
    for (Slot& slot : slots_) {
      slot.host = at::empty({kControlSize + 1}, at::TensorOptions(at::kFloat).pinned_memory(true));
      slot.copied.emplace(device_.type());
    }
  }

  // `norm` is 0-dim. Returns the verdict on the newest step that need not be waited for, or on this
  // one if `now`.
  Verdict Read(int64_t step, const at::Tensor& control, const at::Tensor& norm, bool now) {
    if (device_.is_cpu())
      return ToVerdict(step, control.const_data_ptr<float>(), norm.const_data_ptr<float>());
    Slot& slot = slots_[step % 2];
    slot.host.copy_(at::cat({control, norm.view({1})}), /*non_blocking=*/true);
    slot.copied->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    slot.step = step;
    Slot& wanted = now ? slot : slots_[(step + 1) % 2];
    if (wanted.step < 0) return Verdict();
    wanted.copied->synchronize();
    const float* numbers = wanted.host.const_data_ptr<float>();
    return ToVerdict(wanted.step, numbers, numbers + kControlSize);
  }

 private:
  struct Slot {
    int64_t step = -1;
    at::Tensor host;
    std::optional<c10::Event> copied;
  };

  static Verdict ToVerdict(int64_t step, const float* control, const float* norm) {
    Verdict verdict;
    verdict.step = step;
    verdict.finite = std::isfinite(control[kLoss]) && std::isfinite(*norm);
    verdict.wish = {control[kStop] > 0, control[kSave] > 0};
    verdict.loss = control[kLoss];
    verdict.accuracy = control[kAccuracy];
    verdict.grad_norm = *norm;
    return verdict;
  }

  const at::Device device_;
  Slot slots_[2];
};

TrainStep::TrainStep(const Recipe& recipe, const StepParts& parts)
    : recipe_(recipe),
      model_(parts.model),
      objective_(parts.objective),
      optimizer_(parts.optimizer),
      gang_(parts.gang),
      device_(parts.device),
      sync_(gang_.MakeGradientSync(Tensors(model_.parameters()), {.control_size = kControlSize})),
      numbers_(std::make_unique<Numbers>(device_)) {}

TrainStep::~TrainStep() = default;

Verdict TrainStep::Run(int64_t step, const Batch& batch, const StopWish& wish, bool report,
                       StepTimer& timer) {
  SeedStep(recipe_.seed, step, gang_.rank(), device_);
  sync_->BeginStep();

  ModelOutput output;
  at::Tensor loss;
  {
    AutocastScope autocast(recipe_.precision, device_);
    output = model_.Forward(batch.inputs);
    loss = objective_.TrainingLoss(output, batch);
  }
  // Ranks may hold unequal shares of the batch: weighted so, the mean over ranks is the mean over
  // samples.
  const double weight = static_cast<double>(batch.count) * gang_.world_size() /
                        static_cast<double>(batch.global_count);
  sync_->Backward(loss, at::full({}, weight, loss.options()),
                  Control(loss, output, batch, wish, report));
  timer.Mark(StepPart::kForwardBackward);
  timer.Move(StepPart::kForwardBackward, StepPart::kCommunication,
             absl::ToDoubleSeconds(sync_->last_wait()));

  at::NoGradGuard no_grad;
  const std::vector<at::Tensor>& gradients = sync_->gradients();
  const at::Tensor norm = GlobalNorm(gradients);
  const Verdict verdict = numbers_->Read(step, sync_->control(), norm, report);

  at::Tensor found_inf;  // a device decides by itself whether to skip the update; the host learns
                         // of it later
  if (!device_.is_cpu()) found_inf = at::isfinite(norm).logical_not().to(at::kFloat);
  if (verdict.finite) {
    if (recipe_.clip_norm > 0) {
      const at::Tensor limit = at::full({}, recipe_.clip_norm, norm.options());
      const at::Tensor scale = at::clamp_max(limit.div(norm.add(kClipEpsilon)), 1.0);
      at::_foreach_mul_(gradients, scale);
    }
    optimizer_.Step(gradients, LearningRate(recipe_.schedule, step), found_inf);
  }
  timer.Mark(StepPart::kOptimizer);
  return verdict;
}

at::Tensor TrainStep::Control(const at::Tensor& loss, const ModelOutput& output, const Batch& batch,
                              const StopWish& wish, bool report) {
  at::NoGradGuard no_grad;
  const double share = static_cast<double>(batch.count) * gang_.world_size() /
                       static_cast<double>(batch.global_count);
  at::Tensor control = at::empty({kControlSize}, at::kFloat);
  float* numbers = control.data_ptr<float>();
  numbers[kStop] = wish.stop ? 1.0f : 0.0f;
  numbers[kSave] = wish.save ? 1.0f : 0.0f;
  numbers[kLoss] = 0;
  numbers[kAccuracy] = 0;
  at::Tensor accuracy;
  if (report) accuracy = objective_.Correct(output, batch);
  if (accuracy.defined()) accuracy = accuracy.to(at::kFloat).mul(share / batch.inputs.size(0));
  if (device_.is_cpu()) {
    numbers[kLoss] = static_cast<float>(loss.item<double>() * share);
    if (accuracy.defined()) numbers[kAccuracy] = accuracy.item<float>();
    return control;
  }
  at::Tensor on_device = control.to(device_, /*non_blocking=*/true);
  on_device.select(0, kLoss).copy_(loss.detach().mul(share));
  if (accuracy.defined()) on_device.select(0, kAccuracy).copy_(accuracy);
  return on_device;
}

}  // namespace muster::worker
