#include "worker/data/model_inputs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <utility>
#include <vector>

namespace muster::worker {
namespace {

// A number for each channel, [C, 1, 1], there.
at::Tensor OfChannels(const std::vector<float>& values, c10::Device device) {
  return at::tensor(values, at::kFloat).to(device).view({-1, 1, 1});
}

}  // namespace

PixelScaler::PixelScaler(const PixelScale& scale, c10::Device device)
    : full_(OfChannels({255.0f}, device)),
      mean_(OfChannels(scale.mean, device)),
      std_(OfChannels(scale.std, device)) {}

// All divisors are tensors: a GPU multiplies by the inverse of a plain number, which rounds
// otherwise.
void PixelScaler::Scale(const at::Tensor& pixels, const at::Tensor& inputs) const {
  const at::NoGradGuard no_grad;
  inputs.copy_(pixels);
  inputs.div_(full_).sub_(mean_).div_(std_);
}

Batch WithModelInputs(Batch batch) {
  if (batch.pixels == nullptr) return batch;
  const at::Tensor inputs =
      at::empty(batch.inputs.sizes(), at::TensorOptions(at::kFloat).device(batch.inputs.device()));
  PixelScaler(*batch.pixels, inputs.device()).Scale(batch.inputs, inputs);
  batch.inputs = inputs;
  batch.pixels = nullptr;
  return batch;
}

}  // namespace muster::worker
