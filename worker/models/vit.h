// The Vision Transformer (Dosovitskiy et al. 2021) as a classifier of pictures.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/models/base/model.h"

namespace muster::worker {

struct VitConfig {
  int64_t patch_size = 16;  // divides the pictures' height and width
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  int64_t mlp_width = 3072;
  double dropout = 0;
  double attention_dropout = 0;
};

// torchvision's VisionTransformer and its names and initial weights; a class token, learnt
// positions. INVALID_ARGUMENT when a sample is not [channels, height, width] or does not part into
// whole patches, or width is no multiple of heads.
absl::StatusOr<std::unique_ptr<Model>> MakeVit(const VitConfig& config,
                                               const ModelContext& context);

}  // namespace muster::worker
