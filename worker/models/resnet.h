// Residual networks (He et al. 2016).
#pragma once

#include <cstdint>
#include <memory>

#include "worker/models/model.h"

namespace muster::worker {

struct ResNet18Config {
  int64_t width = 64;  // channels of the first stage
  bool imagenet_stem = false;
};

// torchvision's resnet18 and its names. INVALID_ARGUMENT when a sample is not [channels, height,
// width].
absl::StatusOr<std::unique_ptr<Model>> MakeResNet18(const ResNet18Config& config,
                                                    const ModelContext& context);

}  // namespace muster::worker
