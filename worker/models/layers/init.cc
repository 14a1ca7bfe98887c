#include "worker/models/layers/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <cmath>

namespace muster::worker {

Initializer::Initializer(uint64_t seed, at::Device device)
    : generator_(at::detail::createCPUGenerator(seed)), shapes_only_(device.is_meta()) {}

at::Tensor Initializer::Empty(at::IntArrayRef sizes) const {
  return at::empty(sizes,
                   at::TensorOptions(at::kFloat).device(shapes_only_ ? at::kMeta : at::kCPU));
}

at::Tensor Initializer::LinearWeight(int64_t out, int64_t in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  return Empty({out, in}).uniform_(-bound, bound, generator_);
}

at::Tensor Initializer::LinearBias(int64_t out, int64_t in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  return Empty({out}).uniform_(-bound, bound, generator_);
}

at::Tensor Initializer::Normal(at::IntArrayRef sizes, double deviation) {
  return Empty(sizes).normal_(0.0, deviation, generator_);
}

at::Tensor Initializer::XavierUniform(int64_t out, int64_t in) {
  const double bound = std::sqrt(6.0 / static_cast<double>(in + out));
  return Empty({out, in}).uniform_(-bound, bound, generator_);
}

at::Tensor Initializer::ConvolutionWeight(int64_t out, int64_t in, int64_t kernel) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(out * kernel * kernel));
  return Empty({out, in, kernel, kernel}).normal_(0.0, deviation, generator_);
}

}  // namespace muster::worker
