// The multi-layer perceptron.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/models/base/model.h"

namespace muster::worker {

struct MlpConfig {
  std::vector<int64_t> hidden;  // width of each hidden layer, first to last; may be empty
};

// Linear layers with ReLU between, on the flattened input; named as torch.nn.Sequential(Linear,
// ReLU, Linear, ...) names them.
std::unique_ptr<Model> MakeMlp(const MlpConfig& config, const ModelContext& context);

}  // namespace muster::worker
