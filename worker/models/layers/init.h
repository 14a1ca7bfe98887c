// Initial weights: the distributions of torch.nn's layers, drawn from one seeded stream on the CPU.
//
// Used by the models alone. The order of the calls is part of the result.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace muster::worker {

class Initializer {
 public:
  // For the meta device nothing is drawn: only shapes are wanted.
  explicit Initializer(uint64_t seed, at::Device device = at::kCPU);

  // Uniform in +-1/sqrt(fan_in): torch.nn.Linear's weight [out, in] and bias [out].
  at::Tensor LinearWeight(int64_t out, int64_t in);
  at::Tensor LinearBias(int64_t out, int64_t in);
  // Normal with mean 0.
  at::Tensor Normal(at::IntArrayRef sizes, double deviation);
  // Uniform in +-sqrt(6 / (in + out)), [out, in] (Glorot and Bengio 2010).
  at::Tensor XavierUniform(int64_t out, int64_t in);
  // Normal with variance 2 / (out * kernel^2) (He et al. 2015, fan out): torchvision's ResNet,
  // [out, in, kernel, kernel].
  at::Tensor ConvolutionWeight(int64_t out, int64_t in, int64_t kernel);

 private:
  at::Tensor Empty(at::IntArrayRef sizes) const;

  at::Generator generator_;
  const bool shapes_only_;
};

}  // namespace muster::worker
