// Residual networks (He et al. 2016).
#pragma once

#include <cstdint>
#include <memory>

#include "worker/models/base/model.h"

namespace muster::worker {

enum class ResNetDepth { k18, k34, k50, k101 };

struct ResNetConfig {
  ResNetDepth depth = ResNetDepth::k18;
  int64_t width = 64;  // channels of the first stage
  bool imagenet_stem = false;
  // Start each block as the identity: its last batch norm's weight is 0 (Goyal et al. 2017).
  bool zero_init_residual = false;
};

// torchvision's resnet18, 34, 50 and 101 and their names. INVALID_ARGUMENT when a sample is not
// [channels, height, width].
absl::StatusOr<std::unique_ptr<Model>> MakeResNet(const ResNetConfig& config,
                                                  const ModelContext& context);

}  // namespace muster::worker
