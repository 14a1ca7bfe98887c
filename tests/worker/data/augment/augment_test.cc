#include "worker/data/augment/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/data/augment/policy_ops.h"

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int64_t kSide = 8;

AugmentConfig Everything() {
  AugmentConfig config;
  config.crop_padding = 1;
  config.crop_min_area = 0.3;
  config.flip = 0.5;
  config.vertical_flip = 0.5;
  config.rand_augment_ops = 2;
  config.color_jitter = {0.8, 0.4, 0.4, 0.4, 0.1};
  config.grey = 0.2;
  config.blur = 0.5;
  config.erase = 0.5;
  return config;
}

// Pixels from black to white.
std::vector<float> RampPicture() {
  std::vector<float> values(3 * kSide * kSide);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) / static_cast<float>(values.size() - 1);
  return values;
}

std::vector<float> Changed(const AugmentConfig& config, uint64_t seed, const EpochPlace& place) {
  std::vector<float> values = RampPicture();
  Augmenter(config, seed).Change({values.data(), 3, kSide, kSide}, place);
  return values;
}

std::vector<std::string> Described(const AugmentConfig& config, const EpochPlace& place) {
  std::vector<std::string> texts;
  for (const PictureChange& change : Augmenter(config, 1).Draw(kSide, kSide, place))
    texts.push_back(Describe(change));
  return texts;
}

TEST(Augmenter, APictureFollowsFromSeedEpochAndPositionAlone) {
  const std::vector<float> picture = Changed(Everything(), 7, {5, 13});
  EXPECT_EQ(picture, Changed(Everything(), 7, {5, 13}));
  EXPECT_NE(picture, Changed(Everything(), 7, {5, 14}));
  EXPECT_NE(picture, Changed(Everything(), 7, {6, 13}));
  EXPECT_NE(picture, Changed(Everything(), 8, {5, 13}));
}

TEST(Augmenter, PixelsStayBetweenBlackAndWhite) {
  std::vector<AugmentConfig> configs(4, Everything());
  configs[0].rand_augment_magnitude = 30;
  configs[1].rand_augment_ops = configs[2].rand_augment_ops = configs[3].rand_augment_ops = 0;
  configs[1].trivial_augment = true;
  configs[2].auto_augment = AutoAugmentPolicy::kSvhn;
  configs[3].auto_augment = AutoAugmentPolicy::kImageNet;
  configs[3].erase_fill = EraseFill::kNoise;
  for (const AugmentConfig& config : configs) {
    for (uint64_t position = 0; position < 300; ++position) {
      const std::vector<float> values = Changed(config, 1, {0, position});
      EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.0f);
      EXPECT_LE(*std::max_element(values.begin(), values.end()), 1.0f);
    }
  }
}

TEST(Augmenter, WhatIsDrawnIsWhatIsDone) {
  const Augmenter augmenter(Everything(), 3);
  for (uint64_t position = 0; position < 50; ++position) {
    std::vector<float> values = RampPicture();
    const Picture picture = {values.data(), 3, kSide, kSide};
    for (const PictureChange& change : augmenter.Draw(kSide, kSide, {2, position}))
      Apply(change, picture);
    EXPECT_EQ(values, Changed(Everything(), 3, {2, position}));
  }
}

// Whatever is switched on or off, the others draw what they drew before.
TEST(Augmenter, NoOperationChangesWhatAnotherDraws) {
  const std::vector<std::function<void(AugmentConfig&)>> switches = {
      [](AugmentConfig& config) { config.crop_padding = 0; },
      [](AugmentConfig& config) { config.crop_min_area = 0; },
      [](AugmentConfig& config) { config.flip = 0; },
      [](AugmentConfig& config) { config.vertical_flip = 0; },
      [](AugmentConfig& config) { config.rand_augment_ops = 0; },
      [](AugmentConfig& config) { config.color_jitter.brightness = 0; },
      [](AugmentConfig& config) { config.color_jitter.hue = 0; },
      [](AugmentConfig& config) { config.grey = 0; },
      [](AugmentConfig& config) { config.blur = 0; },
      [](AugmentConfig& config) { config.erase = 0; }};
  for (const auto& off : switches) {
    AugmentConfig config = Everything();
    off(config);
    size_t left_out = 0;
    for (uint64_t position = 0; position < 40; ++position) {
      // What is left is all of it, in order, without what was switched off.
      const std::vector<std::string> all = Described(Everything(), {0, position});
      const std::vector<std::string> rest = Described(config, {0, position});
      size_t at = 0;
      for (const std::string& text : all) at += at < rest.size() && rest[at] == text;
      EXPECT_EQ(at, rest.size()) << "position " << position;
      left_out += all.size() - rest.size();
    }
    EXPECT_GT(left_out, 0u);
  }
}

TEST(Augmenter, ChangesComeInTheOrderOfTheJobFile) {
  AugmentConfig config = Everything();
  config.flip = config.vertical_flip = config.grey = config.blur = config.erase = 1;
  config.rand_augment_ops = 0;
  config.color_jitter = {1, 0.4, 0, 0, 0};
  std::vector<PictureOp> ops;
  for (const PictureChange& change : Augmenter(config, 1).Draw(kSide, kSide, {0, 0}))
    ops.push_back(change.op);
  EXPECT_THAT(ops, ElementsAre(PictureOp::kCropAndResize, PictureOp::kTranslate,
                               PictureOp::kFlipHorizontally, PictureOp::kFlipVertically,
                               PictureOp::kBrightness, PictureOp::kGrey, PictureOp::kBlur,
                               PictureOp::kErase));
}

TEST(Augmenter, ColourJitterDrawsEveryOrderAndStaysInItsRanges) {
  AugmentConfig config;
  config.color_jitter = {1, 0.4, 1.5, 0.2, 0.1};
  const Augmenter augmenter(config, 1);
  std::map<std::vector<PictureOp>, int> orders;
  std::map<PictureOp, std::pair<double, double>> ranges;
  for (uint64_t position = 0; position < 2400; ++position) {
    std::vector<PictureOp> order;
    for (const PictureChange& change : augmenter.Draw(kSide, kSide, {0, position})) {
      order.push_back(change.op);
      auto& [least, most] =
          ranges.try_emplace(change.op, change.amount, change.amount).first->second;
      least = std::min(least, change.amount);
      most = std::max(most, change.amount);
    }
    ++orders[order];
  }
  EXPECT_THAT(orders, SizeIs(24));
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 100, 45);
  const std::map<PictureOp, std::pair<double, double>> wanted = {
      {PictureOp::kBrightness, {0.6, 1.4}},
      {PictureOp::kContrast, {0, 2.5}},
      {PictureOp::kSaturation, {0.8, 1.2}},
      {PictureOp::kHue, {-0.1, 0.1}}};
  for (const auto& [op, range] : wanted) {
    const double slack = (range.second - range.first) * 0.01;
    EXPECT_GE(ranges[op].first, range.first);
    EXPECT_NEAR(ranges[op].first, range.first, slack);
    EXPECT_LE(ranges[op].second, range.second);
    EXPECT_NEAR(ranges[op].second, range.second, slack);
  }
}

TEST(Augmenter, TrivialAugmentDrawsOneOperationOfAnyStrength) {
  AugmentConfig config;
  config.trivial_augment = true;
  std::set<PictureOp> ops;
  std::set<double> degrees;
  for (uint64_t position = 0; position < 3000; ++position) {
    const std::vector<PictureChange> changes =
        Augmenter(config, 1).Draw(kSide, kSide, {0, position});
    ASSERT_THAT(changes, SizeIs(1));
    ops.insert(changes[0].op);
    if (changes[0].op == PictureOp::kRotate) degrees.insert(changes[0].amount);
  }
  EXPECT_THAT(ops, SizeIs(12));  // shears and translations are one each
  EXPECT_EQ(*degrees.begin(), -135);
  EXPECT_EQ(*degrees.rbegin(), 135);
}

TEST(Augmenter, AutoAugmentDoesTheStepsOfOneSubPolicy) {
  AugmentConfig config;
  config.auto_augment = AutoAugmentPolicy::kImageNet;
  size_t steps = 0;
  constexpr uint64_t kPictures = 4000;
  for (uint64_t position = 0; position < kPictures; ++position)
    steps += Described(config, {0, position}).size();
  double wanted = 0;
  for (const SubPolicy& policy : SubPoliciesOf(AutoAugmentPolicy::kImageNet))
    wanted += policy[0].chance + policy[1].chance;
  EXPECT_NEAR(static_cast<double>(steps) / kPictures, wanted / kSubPolicies, 0.04);
}

TEST(Augmenter, ErasesWithWhatItWasGiven) {
  AugmentConfig config;
  config.erase = 1;
  config.erase_values = {0.1f, 0.2f, 0.3f};
  std::vector<float> values(3 * kSide * kSide, 1.0f);
  Augmenter(config, 1).Change({values.data(), 3, kSide, kSide}, {0, 0});
  const std::set<float> seen(values.begin(), values.end());
  EXPECT_THAT(seen, ElementsAre(0.1f, 0.2f, 0.3f, 1.0f));
}

// Who crops while it decodes takes the same part of the larger picture.
TEST(Augmenter, TheResizedCropIsToldOfAPictureOfAnySize) {
  AugmentConfig config;
  config.crop_min_area = 0.08;
  const Augmenter augmenter(config, 1);
  for (uint64_t position = 0; position < 100; ++position) {
    const Window window = augmenter.ResizedCrop(375, 500, {1, position});
    EXPECT_EQ(window, augmenter.Draw(375, 500, {1, position}).at(0).window);
    EXPECT_GE(window.height * window.width, 375 * 500 * 8 / 100 - 500);
  }
}

// Literal values, worked out by another implementation: a run that goes on under a new version
// draws what it would have drawn.
TEST(Augmenter, DrawsTheSameForEver) {
  std::vector<std::string> texts;
  for (const PictureChange& change : Augmenter(Everything(), 1).Draw(32, 32, {3, 1000}))
    texts.push_back(Describe(change));
  EXPECT_THAT(texts,
              ElementsAre("crop_and_resize top 6 left 1 height 24 width 29", "translate x 0 y 1",
                          "flip_vertically", "sharpness 1.27", "brightness 1.27",
                          "saturation 0.803898", "contrast 1.06717", "brightness 1.27614",
                          "hue 0.0429505", "blur sigma 1.04987 radius 1"));
}

TEST(PictureChange, IsDescribedInAFewWords) {
  EXPECT_EQ(Describe({.op = PictureOp::kRotate, .amount = 12.5}), "rotate 12.5");
  EXPECT_EQ(Describe({.op = PictureOp::kTranslate, .x = 3, .y = -1}), "translate x 3 y -1");
  EXPECT_EQ(Describe({.op = PictureOp::kErase, .window = {1, 2, 3, 4}, .fill = {0.5f}}),
            "erase top 1 left 2 height 3 width 4 with 0.5");
  EXPECT_EQ(Describe({.op = PictureOp::kFlipHorizontally}), "flip_horizontally");
}

}  // namespace
}  // namespace muster::worker
