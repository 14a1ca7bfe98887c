// A tensor by its name in the state dict.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace muster::worker {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

using NamedTensors = std::vector<NamedTensor>;

}  // namespace muster::worker
