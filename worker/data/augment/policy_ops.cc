#include "worker/data/augment/policy_ops.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {

PictureChange PolicyChange(PolicyOp op, const PolicyReach& reach, double strength, double sign,
                           int64_t height, int64_t width) {
  strength = std::clamp(strength, 0.0, 1.0);
  const double slope = sign * reach.slope * strength;
  const double factor = 1 + sign * reach.factor * strength;
  const auto shift = [&](int64_t side) {
    const double scaled = sign * strength * reach.shift_of_331 / 331 * static_cast<double>(side);
    return std::trunc(scaled + sign * strength * reach.shift_pixels);
  };
  switch (op) {
    case PolicyOp::kIdentity:
      return {};
    case PolicyOp::kShearX:
      return {.op = PictureOp::kShear, .x = slope};
    case PolicyOp::kShearY:
      return {.op = PictureOp::kShear, .y = slope};
    case PolicyOp::kTranslateX:
      return {.op = PictureOp::kTranslate, .x = shift(width)};
    case PolicyOp::kTranslateY:
      return {.op = PictureOp::kTranslate, .y = shift(height)};
    case PolicyOp::kRotate:
      return {.op = PictureOp::kRotate, .amount = sign * reach.degrees * strength};
    case PolicyOp::kBrightness:
      return {.op = PictureOp::kBrightness, .amount = factor};
    case PolicyOp::kColor:
      return {.op = PictureOp::kSaturation, .amount = factor};
    case PolicyOp::kContrast:
      return {.op = PictureOp::kContrast, .amount = factor};
    case PolicyOp::kSharpness:
      return {.op = PictureOp::kSharpness, .amount = factor};
    case PolicyOp::kPosterize:
      return {.op = PictureOp::kPosterize,
              .amount = 8 - std::round(reach.posterize_bits * strength)};
    case PolicyOp::kSolarize:
      return {.op = PictureOp::kSolarize, .amount = 1 - strength};
    case PolicyOp::kAutoContrast:
      return {.op = PictureOp::kAutoContrast};
    case PolicyOp::kEqualize:
      return {.op = PictureOp::kEqualize};
    case PolicyOp::kInvert:
      return {.op = PictureOp::kInvert};
  }
  return {};
}

}  // namespace muster::worker
