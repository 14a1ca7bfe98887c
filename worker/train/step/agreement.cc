#include "worker/train/step/agreement.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <vector>

#include "worker/train/step/loss_scale.h"

namespace muster::worker {
namespace {

enum ControlNumber { kStop, kSave, kLeftOff, kLoss, kAccuracy, kEnd };
static_assert(kEnd == Agreement::kControlNumbers);

}  // namespace

Agreement::Agreement(at::Device device, bool scaled, int64_t max_skips)
    : device_(device), scaled_(scaled), max_skips_(max_skips) {
  if (device_.is_cpu()) return;
  for (Readback& readback : readbacks_) {
    readback.host = at::empty({kControlNumbers + 1 + (scaled ? LossScaler::kNumbers : 0)},
                              at::TensorOptions(at::kFloat).pinned_memory(true));
    readback.copied.emplace(device_.type());
  }
}

at::Tensor Agreement::Begin(const RequestedStop& requested, bool leaves_off) const {
  at::Tensor control =
      at::zeros({kControlNumbers}, at::TensorOptions(at::kFloat).pinned_memory(!device_.is_cpu()));
  float* numbers = control.data_ptr<float>();
  numbers[kStop] = requested.stop ? 1.0f : 0.0f;
  numbers[kSave] = requested.save ? 1.0f : 0.0f;
  numbers[kLeftOff] = leaves_off ? 1.0f : 0.0f;
  return device_.is_cpu() ? control : control.to(device_, /*non_blocking=*/true);
}

void Agreement::Add(const at::Tensor& loss, const at::Tensor& correct, int64_t samples,
                    double share, const at::Tensor& control) const {
  if (correct.defined()) {
    control.select(0, kAccuracy)
        .add_(correct.to(at::kFloat).mul(share / static_cast<double>(samples)));
  }
  if (device_.is_cpu()) {
    control.data_ptr<float>()[kLoss] += static_cast<float>(loss.item<double>() * share);
  } else {
    control.select(0, kLoss).add_(loss.detach().mul(share));
  }
}

at::Tensor Agreement::LossOf(const at::Tensor& control) { return control.select(0, kLoss); }

bool Agreement::IsLeftOff(const StepNumbers& numbers) const {
  return device_.is_cpu() && numbers.control.const_data_ptr<float>()[kLeftOff] > 0;
}

bool Agreement::MustSkip(const StepNumbers& numbers) const {
  if (!device_.is_cpu()) return false;
  const StepResult result = OnHost(/*step=*/0, numbers);
  return !result.finite || result.skipped;
}

StepResult Agreement::Read(int64_t step, const StepNumbers& numbers, bool now) {
  if (device_.is_cpu()) return OnHost(step, numbers);
  Readback& readback = readbacks_[step % 2];
  Queue(step, numbers, readback);
  const StepResult earlier = Await(readbacks_[(step + 1) % 2]);
  if (!now || !earlier.finite || earlier.left_off) return earlier;
  StepResult result = Await(readback);
  result.requested.stop |= earlier.requested.stop;
  result.requested.save |= earlier.requested.save;
  return result;
}

void Agreement::Queue(int64_t step, const StepNumbers& numbers, Readback& readback) const {
  std::vector<at::Tensor> parts = {numbers.control, numbers.norm.view({1})};
  if (scaled_) parts.push_back(numbers.loss_scale);
  readback.host.copy_(at::cat(parts), /*non_blocking=*/true);
  readback.copied->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  readback.step = step;
  readback.told = false;
}

StepResult Agreement::Await(Readback& readback) const {
  if (readback.told) return StepResult();
  readback.copied->synchronize();
  readback.told = true;
  const float* numbers = readback.host.const_data_ptr<float>();
  return ToResult(readback.step, numbers, numbers + kControlNumbers, numbers + kControlNumbers + 1);
}

StepResult Agreement::OnHost(int64_t step, const StepNumbers& numbers) const {
  if (IsLeftOff(numbers)) {
    const float* control = numbers.control.const_data_ptr<float>();
    return {.step = step, .requested = {control[kStop] > 0, control[kSave] > 0}, .left_off = true};
  }
  return ToResult(step, numbers.control.const_data_ptr<float>(),
                  numbers.norm.const_data_ptr<float>(),
                  scaled_ ? numbers.loss_scale.const_data_ptr<float>() : nullptr);
}

// `loss_scale` is read only when there is one.
StepResult Agreement::ToResult(int64_t step, const float* control, const float* norm,
                               const float* loss_scale) const {
  StepResult result;
  result.step = step;
  result.finite = std::isfinite(control[kLoss]) && std::isfinite(*norm);
  result.left_off = control[kLeftOff] > 0;
  // A device has gone on by the time its host knows.
  result.requested = {control[kStop] > 0, control[kSave] > 0 && !result.left_off};
  result.loss = control[kLoss];
  result.accuracy = control[kAccuracy];
  result.grad_norm = *norm;
  if (!scaled_) return result;
  result.loss_scale = loss_scale[LossScaler::kScale];
  result.skips_in_row = static_cast<int64_t>(loss_scale[LossScaler::kSkipsInRow]);
  result.skipped_steps = static_cast<int64_t>(loss_scale[LossScaler::kSkippedSteps]);
  result.skipped = result.skips_in_row > 0;
  result.finite = result.skips_in_row < max_skips_;
  return result;
}

}  // namespace muster::worker
