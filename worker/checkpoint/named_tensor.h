// A tensor by its name in the state dict.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace muster::worker {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  // Read in its place from a file that has none of that name; empty: it must be there.
  std::string or_else = {};
};

using NamedTensors = std::vector<NamedTensor>;

}  // namespace muster::worker
