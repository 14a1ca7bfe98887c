#include "worker/data/images/pixels.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <vector>

namespace muster::worker {
namespace {

// One number for each channel, to be laid over [n, channels, ...].
at::Tensor PerChannel(const std::vector<float>& values, int64_t axes) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(float));
  std::vector<int64_t> sizes(static_cast<size_t>(axes), 1);
  sizes[1] = tensor.size(0);
  return tensor.view(sizes);
}

}  // namespace

at::Tensor ToPixels(const at::Tensor& stored, const PixelScale& scale) {
  if (stored.scalar_type() == at::kByte) return stored.to(at::kFloat).div_(255.0);
  const int64_t axes = stored.dim();
  return stored.mul(PerChannel(scale.std, axes)).add_(PerChannel(scale.mean, axes));
}

void Normalize(at::Tensor& pixels, const PixelScale& scale) {
  const int64_t axes = pixels.dim();
  pixels.sub_(PerChannel(scale.mean, axes)).div_(PerChannel(scale.std, axes));
}

at::Tensor ToInputs(const at::Tensor& stored, const PixelScale& scale) {
  if (stored.scalar_type() != at::kByte) return stored;
  at::Tensor pixels = ToPixels(stored, scale);
  Normalize(pixels, scale);
  return pixels;
}

}  // namespace muster::worker
