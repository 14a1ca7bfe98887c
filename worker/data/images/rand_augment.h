// The operations of RandAugment (Cubuk et al. 2020) and how strong they are: those of
// torchvision.transforms.v2.RandAugment with its 31 bins, nearest neighbour and black.
//
// Used by Augmenter, and by a test that lays each beside torchvision's own.
#pragma once

#include "worker/data/images/picture_ops.h"

namespace muster::worker {

// Part of what a seed means: never reordered.
enum class RandAugmentOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize
};
inline constexpr int kRandAugmentOps = 14;

// `magnitude` from 0 to 30. `sign`, 1 or -1, is the direction of what has two.
void ApplyRandAugmentOp(Picture picture, RandAugmentOp op, double magnitude, double sign);

}  // namespace muster::worker
