#include "worker/data/images/rand_augment.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {
namespace {

constexpr double kMostMagnitude = 30;

}  // namespace

void ApplyRandAugmentOp(Picture picture, RandAugmentOp op, double magnitude, double sign) {
  const double strength = std::clamp(magnitude / kMostMagnitude, 0.0, 1.0);
  const float factor = static_cast<float>(1 + sign * 0.9 * strength);
  const double slope = sign * 0.3 * strength;
  const auto shift = [&](int64_t extent) {
    return static_cast<int64_t>(sign * strength * 150.0 / 331.0 * static_cast<double>(extent));
  };
  switch (op) {
    case RandAugmentOp::kIdentity:
      return;
    case RandAugmentOp::kShearX:
      return ShearFromCorner(picture, slope, 0);
    case RandAugmentOp::kShearY:
      return ShearFromCorner(picture, 0, slope);
    case RandAugmentOp::kTranslateX:
      return Translate(picture, shift(picture.width), 0);
    case RandAugmentOp::kTranslateY:
      return Translate(picture, 0, shift(picture.height));
    case RandAugmentOp::kRotate:
      return Rotate(picture, sign * 30 * strength);
    case RandAugmentOp::kBrightness:
      return AdjustBrightness(picture, factor);
    case RandAugmentOp::kColor:
      return AdjustSaturation(picture, factor);
    case RandAugmentOp::kContrast:
      return AdjustContrast(picture, factor);
    case RandAugmentOp::kSharpness:
      return AdjustSharpness(picture, factor);
    case RandAugmentOp::kPosterize:
      return Posterize(picture, 8 - static_cast<int>(std::lround(4 * strength)));
    case RandAugmentOp::kSolarize:
      return Solarize(picture, static_cast<float>(1 - strength));
    case RandAugmentOp::kAutoContrast:
      return AutoContrast(picture);
    case RandAugmentOp::kEqualize:
      return Equalize(picture);
  }
}

}  // namespace muster::worker
