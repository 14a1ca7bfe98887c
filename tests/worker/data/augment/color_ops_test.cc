#include "worker/data/augment/color_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::Pointwise;

// One channel.
struct GreyLevels {
  std::vector<float> values;
  int64_t height, width;
  Picture picture() { return {values.data(), 1, height, width}; }
};

TEST(ColorOps, AFactorOfOneChangesNothing) {
  std::vector<float> values(3 * 4 * 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 48.0f;
  const std::vector<float> before = values;
  const Picture picture{values.data(), 3, 4, 4};
  AdjustBrightness(picture, 1);
  AdjustContrast(picture, 1);
  AdjustSaturation(picture, 1);
  AdjustSharpness(picture, 1);
  EXPECT_THAT(values, Pointwise(FloatNear(1e-6f), before));
}

TEST(ColorOps, BrightnessStaysBetweenBlackAndWhite) {
  GreyLevels grey{{0.2f, 0.4f, 0.6f, 1.0f}, 2, 2};
  AdjustBrightness(grey.picture(), 2);
  EXPECT_THAT(grey.values, ElementsAre(FloatEq(0.4f), FloatEq(0.8f), 1.0f, 1.0f));
}

TEST(ColorOps, ContrastZeroIsTheMeanGreyAndSaturationZeroIsGreyEverywhere) {
  GreyLevels grey{{0.0f, 0.5f, 0.5f, 1.0f}, 2, 2};
  AdjustContrast(grey.picture(), 0);
  EXPECT_THAT(grey.values, ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
  std::vector<float> red = {1.0f, 0.0f, 0.0f};
  AdjustSaturation({red.data(), 3, 1, 1}, 0);
  EXPECT_THAT(red, ElementsAre(FloatEq(0.2989f), FloatEq(0.2989f), FloatEq(0.2989f)));
}

TEST(ColorOps, SharpnessZeroBlursAllButTheBorder) {
  GreyLevels grey{{0, 0, 0, 0, 1, 0, 0, 0, 0}, 3, 3};
  AdjustSharpness(grey.picture(), 0);
  EXPECT_THAT(grey.values, ElementsAre(0, 0, 0, 0, FloatEq(5.0f / 13.0f), 0, 0, 0, 0));
}

TEST(ColorOps, PosterizeKeepsTheHighBitsAndSolarizeInvertsTheBright) {
  GreyLevels grey{{200 / 255.0f, 100 / 255.0f}, 1, 2};
  Posterize(grey.picture(), 2);
  EXPECT_THAT(grey.values, ElementsAre(FloatEq(192 / 255.0f), FloatEq(64 / 255.0f)));
  Solarize(grey.picture(), 0.5f);
  EXPECT_THAT(grey.values, ElementsAre(FloatEq(63 / 255.0f), FloatEq(64 / 255.0f)));
}

TEST(ColorOps, AutoContrastSpreadsEachChannelAndLeavesAFlatOneAlone) {
  std::vector<float> values = {0.25f, 0.5f, 0.3f, 0.3f};
  AutoContrast({values.data(), 2, 1, 2});
  EXPECT_THAT(values, ElementsAre(0.0f, 1.0f, 0.3f, 0.3f));
}

TEST(ColorOps, EqualizeFollowsPillowsTable) {
  // 512 pixels, half of level 10 and half of level 20: step (512 - 256) / 255 = 1, so level 10 goes
  // to 0 and level 20 to 256, which is cut to 255.
  GreyLevels grey{std::vector<float>(512), 16, 32};
  for (size_t i = 0; i < 512; ++i) grey.values[i] = (i % 2 == 0 ? 10 : 20) / 255.0f;
  Equalize(grey.picture());
  EXPECT_FLOAT_EQ(grey.values[0], 0.0f);
  EXPECT_FLOAT_EQ(grey.values[1], 1.0f);
}

TEST(ColorOps, HueTurnsRedToGreenInAThirdOfTheCircle) {
  std::vector<float> red = {1.0f, 0.25f, 0.25f};
  AdjustHue({red.data(), 3, 1, 1}, 1.0f / 3);
  EXPECT_THAT(red, Pointwise(FloatNear(1e-6f), {0.25f, 1.0f, 0.25f}));
  AdjustHue({red.data(), 3, 1, 1}, -0.5f);
  EXPECT_THAT(red, Pointwise(FloatNear(1e-6f), {1.0f, 0.25f, 1.0f}));
}

TEST(ColorOps, GreysHaveNoHueAndPicturesOfOneChannelNoColour) {
  std::vector<float> grey = {0.5f, 0.5f, 0.5f}, one = {0.3f, 0.7f};
  AdjustHue({grey.data(), 3, 1, 1}, 0.2f);
  EXPECT_THAT(grey, ElementsAre(0.5f, 0.5f, 0.5f));
  AdjustHue({one.data(), 1, 1, 2}, 0.2f);
  MakeGrey({one.data(), 1, 1, 2});
  EXPECT_THAT(one, ElementsAre(0.3f, 0.7f));
}

TEST(ColorOps, GreyIsTheSameInEveryChannel) {
  std::vector<float> values = {1.0f, 0.0f, 0.0f};
  MakeGrey({values.data(), 3, 1, 1});
  EXPECT_THAT(values, ElementsAre(FloatEq(0.2989f), FloatEq(0.2989f), FloatEq(0.2989f)));
}

TEST(ColorOps, InvertingTwiceIsThePicture) {
  GreyLevels grey{{0.25f, 1.0f}, 1, 2};
  Invert(grey.picture());
  EXPECT_THAT(grey.values, ElementsAre(0.75f, 0.0f));
  Invert(grey.picture());
  EXPECT_THAT(grey.values, ElementsAre(0.25f, 1.0f));
}

TEST(ColorOps, ABlurKeepsWhatIsFlatAndSpreadsAPoint) {
  GreyLevels flat{std::vector<float>(25, 0.5f), 5, 5};
  Blur(flat.picture(), 2, 1.5);
  EXPECT_THAT(flat.values, ::testing::Each(FloatNear(0.5f, 1e-6f)));
  GreyLevels point{std::vector<float>(25, 0.0f), 5, 5};
  point.values[12] = 1;
  Blur(point.picture(), 1, 1);
  // exp(-1/2) to each side of 1, in both directions.
  const float side = std::exp(-0.5f), sum = 1 + 2 * side;
  EXPECT_NEAR(point.values[12], 1 / (sum * sum), 1e-6);
  EXPECT_NEAR(point.values[11], side / (sum * sum), 1e-6);
  EXPECT_NEAR(point.values[6], side * side / (sum * sum), 1e-6);
  EXPECT_EQ(point.values[0], 0);
}

TEST(ColorOps, APictureThatIsSmallerThanABlurStaysAsItIs) {
  GreyLevels line{{0.0f, 1.0f, 0.0f}, 1, 3};
  Blur(line.picture(), 1, 1);
  EXPECT_THAT(line.values, ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace muster::worker
