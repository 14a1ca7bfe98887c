#include "worker/data/augment/augment.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "worker/data/augment/policy_ops.h"
#include "worker/data/augment/random_window.h"

namespace muster::worker {
namespace {

constexpr double kCropRatio = 4.0 / 3.0;
// 2% to a third of the picture, as torchvision's RandomErasing.
constexpr WindowRange kErased = {0.02, 0.33, 1 / 0.3};
// Of pixels, whatever the picture's size (Chen et al. 2020, SimCLR).
constexpr double kLeastSigma = 0.1, kMostSigma = 2;
constexpr int64_t kSidesInBlurRadius = 20;  // its whole width is a tenth of the shorter side

double DrawSign(RandomStream& random) { return random.Chance(0.5) ? -1 : 1; }

}  // namespace

std::vector<PictureChange> Augmenter::Draw(int64_t height, int64_t width,
                                           const EpochPlace& place) const {
  Changes changes;
  if (config_.crop_min_area > 0) {
    changes.push_back(
        {.op = PictureOp::kCropAndResize, .window = ResizedCrop(height, width, place)});
  }
  Changes rest = DrawAfterCrop(height, width, place);
  changes.insert(changes.end(), std::make_move_iterator(rest.begin()),
                 std::make_move_iterator(rest.end()));
  return changes;
}

std::vector<PictureChange> Augmenter::DrawAfterCrop(int64_t height, int64_t width,
                                                    const EpochPlace& place) const {
  Changes changes;
  DrawPaddedCrop(place, changes);
  if (Happens(config_.flip, AugmentOp::kHorizontalFlip, place))
    changes.push_back({.op = PictureOp::kFlipHorizontally});
  if (Happens(config_.vertical_flip, AugmentOp::kVerticalFlip, place))
    changes.push_back({.op = PictureOp::kFlipVertically});
  DrawPolicy(height, width, place, changes);
  DrawColorJitter(place, changes);
  if (Happens(config_.grey, AugmentOp::kGrey, place)) changes.push_back({.op = PictureOp::kGrey});
  DrawBlur(height, width, place, changes);
  DrawErase(height, width, place, changes);
  return changes;
}

void Augmenter::Change(Picture picture, const EpochPlace& place) const {
  for (const PictureChange& change : Draw(picture.height, picture.width, place))
    Apply(change, picture);
}

Window Augmenter::ResizedCrop(int64_t height, int64_t width, const EpochPlace& place) const {
  RandomStream random = StreamOf(AugmentOp::kResizedCrop, place);
  const WindowRange range = {config_.crop_min_area, 1, kCropRatio};
  return DrawWindow(height, width, range, random).value_or(MiddleWindow(height, width, kCropRatio));
}

PairMix Augmenter::DrawMix(int64_t height, int64_t width, const EpochPlace& first) const {
  RandomStream random = StreamOf(AugmentOp::kMix, first);
  return DrawPairMix(config_.mixup, config_.cutmix, height, width, random);
}

void Augmenter::DrawPaddedCrop(const EpochPlace& place, Changes& changes) const {
  if (config_.crop_padding == 0) return;
  RandomStream random = StreamOf(AugmentOp::kPaddedCrop, place);
  const int64_t places = 2 * config_.crop_padding + 1;
  const int64_t x = random.Below(places) - config_.crop_padding;
  const int64_t y = random.Below(places) - config_.crop_padding;
  changes.push_back(
      {.op = PictureOp::kTranslate, .x = static_cast<double>(x), .y = static_cast<double>(y)});
}

void Augmenter::DrawPolicy(int64_t height, int64_t width, const EpochPlace& place,
                           Changes& changes) const {
  RandomStream random = StreamOf(AugmentOp::kRandAugment, place);
  for (int64_t i = 0; i < config_.rand_augment_ops; ++i) {
    const double sign = DrawSign(random);
    const auto op = static_cast<PolicyOp>(random.Below(kUniformPolicyOps));
    const double strength = config_.rand_augment_magnitude / kMostMagnitude;
    changes.push_back(PolicyChange(op, kRandAugmentReach, strength, sign, height, width));
  }
  if (config_.trivial_augment) {
    random = StreamOf(AugmentOp::kTrivialAugment, place);
    const double sign = DrawSign(random);
    const auto op = static_cast<PolicyOp>(random.Below(kUniformPolicyOps));
    const double strength = static_cast<double>(random.Below(kMostMagnitude + 1)) / kMostMagnitude;
    changes.push_back(PolicyChange(op, kTrivialAugmentReach, strength, sign, height, width));
  }
  if (config_.auto_augment == AutoAugmentPolicy::kNone) return;
  random = StreamOf(AugmentOp::kAutoAugment, place);
  const auto& policies = SubPoliciesOf(config_.auto_augment);
  for (const PolicyStep& step : policies[static_cast<size_t>(random.Below(kSubPolicies))]) {
    const double sign = DrawSign(random);
    if (!random.Chance(step.chance)) continue;
    const double strength = static_cast<double>(step.magnitude) / kMostAutoMagnitude;
    changes.push_back(PolicyChange(step.op, kAutoAugmentReach, strength, sign, height, width));
  }
}

void Augmenter::DrawColorJitter(const EpochPlace& place, Changes& changes) const {
  const ColorJitterConfig& jitter = config_.color_jitter;
  if (!jitter.on()) return;
  RandomStream random = StreamOf(AugmentOp::kColorJitter, place);
  if (!random.Chance(jitter.chance)) return;
  const auto factor = [&](PictureOp op, double spread) {
    return PictureChange{.op = op, .amount = random.Uniform(std::max(0.0, 1 - spread), 1 + spread)};
  };
  // What is off draws as well, so that the others stay what they are.
  std::array<std::pair<bool, PictureChange>, 4> parts = {{
      {jitter.brightness > 0, factor(PictureOp::kBrightness, jitter.brightness)},
      {jitter.contrast > 0, factor(PictureOp::kContrast, jitter.contrast)},
      {jitter.saturation > 0, factor(PictureOp::kSaturation, jitter.saturation)},
      {jitter.hue > 0, {.op = PictureOp::kHue, .amount = random.Uniform(-jitter.hue, jitter.hue)}},
  }};
  // Fisher and Yates.
  for (size_t i = parts.size() - 1; i > 0; --i)
    std::swap(parts[i], parts[static_cast<size_t>(random.Below(static_cast<int64_t>(i) + 1))]);
  for (auto& [on, change] : parts) {
    if (on) changes.push_back(std::move(change));
  }
}

void Augmenter::DrawBlur(int64_t height, int64_t width, const EpochPlace& place,
                         Changes& changes) const {
  if (config_.blur <= 0) return;
  RandomStream random = StreamOf(AugmentOp::kBlur, place);
  if (!random.Chance(config_.blur)) return;
  const int64_t radius = std::max<int64_t>(1, std::min(height, width) / kSidesInBlurRadius);
  changes.push_back({.op = PictureOp::kBlur,
                     .amount = random.Uniform(kLeastSigma, kMostSigma),
                     .x = static_cast<double>(radius)});
}

void Augmenter::DrawErase(int64_t height, int64_t width, const EpochPlace& place,
                          Changes& changes) const {
  if (config_.erase <= 0) return;
  RandomStream random = StreamOf(AugmentOp::kErase, place);
  if (!random.Chance(config_.erase)) return;
  const std::optional<Window> window = DrawWindow(height, width, kErased, random);
  if (!window.has_value()) return;
  PictureChange change = {.op = PictureOp::kErase, .window = *window};
  if (config_.erase_fill == EraseFill::kNoise) {
    change.noise = StreamOf(AugmentOp::kEraseNoise, place);
  } else {
    change.fill = config_.erase_values;
  }
  changes.push_back(std::move(change));
}

}  // namespace muster::worker
