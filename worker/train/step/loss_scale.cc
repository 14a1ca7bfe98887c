#include "worker/train/step/loss_scale.h"

#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

namespace muster::worker {
namespace {

constexpr double kGrowth = 2.0;
constexpr double kBackoff = 0.5;

}  // namespace

LossScaler::LossScaler(const LossScaleConfig& config, at::Device device)
    : config_(config),
      numbers_(at::zeros({kNumbers}, at::TensorOptions(at::kFloat).device(device))),
      scale_(numbers_.select(0, kScale)),
      growth_tracker_(at::zeros({}, at::TensorOptions(at::kInt).device(device))) {
  scale_.fill_(config.initial);
}

at::Tensor LossScaler::Unscale(Strategy& strategy, const at::Tensor& loss) const {
  const at::Tensor overflow = strategy.Scale(scale_.reciprocal());
  return at::maximum(overflow, at::isfinite(loss).logical_not().to(at::kFloat));
}

void LossScaler::Update(const at::Tensor& overflow) {
  at::_amp_update_scale_(scale_, growth_tracker_, overflow, kGrowth, kBackoff,
                         config_.growth_interval);
  numbers_.select(0, kSkipsInRow).add_(1).mul_(overflow.select(0, 0));
  numbers_.select(0, kSkippedSteps).add_(overflow.select(0, 0));
}

LossScaleState LossScaler::state() const {
  const at::Tensor host = numbers_.cpu();
  const float* numbers = host.const_data_ptr<float>();
  LossScaleState state;
  state.scale = numbers[kScale];
  state.growth_tracker = growth_tracker_.item<int32_t>();
  state.skips_in_row = static_cast<int64_t>(numbers[kSkipsInRow]);
  state.skipped_steps = static_cast<int64_t>(numbers[kSkippedSteps]);
  return state;
}

void LossScaler::Restore(const LossScaleState& state) {
  if (state.scale <= 0) return;  // of a run without a loss scale
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
  numbers_.select(0, kSkipsInRow).fill_(static_cast<double>(state.skips_in_row));
  numbers_.select(0, kSkippedSteps).fill_(static_cast<double>(state.skipped_steps));
}

}  // namespace muster::worker
