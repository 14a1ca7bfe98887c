// The operations that augmentation policies choose from, and how far each goes at full strength:
// RandAugment (Cubuk et al. 2020), TrivialAugment in its wide space (Mueller and Hutter 2021) and
// AutoAugment (Cubuk et al. 2019), as torchvision.transforms.v2 has them, nearest neighbour and
// black.
//
// Used by Augmenter, and by a test that lays each beside torchvision's own. Pure.
#pragma once

#include <cstdint>

#include "worker/data/augment/picture_change.h"

namespace muster::worker {

// Part of what a seed means: never reordered.
enum class PolicyOp {
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
  kEqualize,
  kInvert  // AutoAugment's alone
};
// RandAugment and TrivialAugment draw among the first so many.
inline constexpr int kUniformPolicyOps = 14;
inline constexpr int kPolicyOps = 15;

// How far the operations of a policy go at full strength.
struct PolicyReach {
  double slope = 0;           // of shears
  double degrees = 0;         // of rotations
  double factor = 0;          // of colours, from 1
  double posterize_bits = 0;  // that are lost
  double shift_of_331 = 0;    // of so many pixels in 331, the side of AutoAugment's pictures, ...
  double shift_pixels = 0;    // ... or of so many whatever the side
};
inline constexpr PolicyReach kRandAugmentReach = {0.3, 30, 0.9, 4, 150, 0};
inline constexpr PolicyReach kAutoAugmentReach = kRandAugmentReach;
inline constexpr PolicyReach kTrivialAugmentReach = {0.99, 135, 0.99, 6, 0, 32};

// Magnitudes have 31 steps, 0 to 30; AutoAugment's 10.
inline constexpr int kMostMagnitude = 30;
inline constexpr int kMostAutoMagnitude = 9;

// `strength` from 0 to 1. `sign`, 1 or -1, is the direction of what has two. Of a picture of this
// size.
PictureChange PolicyChange(PolicyOp op, const PolicyReach& reach, double strength, double sign,
                           int64_t height, int64_t width);

}  // namespace muster::worker
