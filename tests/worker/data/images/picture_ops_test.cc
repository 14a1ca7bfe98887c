#include "worker/data/images/picture_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::Pointwise;

// One channel.
struct Grey {
  std::vector<float> values;
  int64_t height, width;
  Picture picture() { return {values.data(), 1, height, width}; }
};

Grey Ramp() { return {{0.0f, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f}, 3, 3}; }

TEST(PictureOps, AFactorOfOneChangesNothing) {
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

TEST(PictureOps, BrightnessStaysBetweenBlackAndWhite) {
  Grey grey{{0.2f, 0.4f, 0.6f, 1.0f}, 2, 2};
  AdjustBrightness(grey.picture(), 2);
  EXPECT_THAT(grey.values, ElementsAre(FloatEq(0.4f), FloatEq(0.8f), 1.0f, 1.0f));
}

TEST(PictureOps, ContrastZeroIsTheMeanGreyAndSaturationZeroIsGreyEverywhere) {
  Grey grey{{0.0f, 0.5f, 0.5f, 1.0f}, 2, 2};
  AdjustContrast(grey.picture(), 0);
  EXPECT_THAT(grey.values, ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
  std::vector<float> red = {1.0f, 0.0f, 0.0f};
  AdjustSaturation({red.data(), 3, 1, 1}, 0);
  EXPECT_THAT(red, ElementsAre(FloatEq(0.2989f), FloatEq(0.2989f), FloatEq(0.2989f)));
}

TEST(PictureOps, SharpnessZeroBlursAllButTheBorder) {
  Grey grey{{0, 0, 0, 0, 1, 0, 0, 0, 0}, 3, 3};
  AdjustSharpness(grey.picture(), 0);
  EXPECT_THAT(grey.values, ElementsAre(0, 0, 0, 0, FloatEq(5.0f / 13.0f), 0, 0, 0, 0));
}

TEST(PictureOps, PosterizeKeepsTheHighBitsAndSolarizeInvertsTheBright) {
  Grey grey{{200 / 255.0f, 100 / 255.0f}, 1, 2};
  Posterize(grey.picture(), 2);
  EXPECT_THAT(grey.values, ElementsAre(FloatEq(192 / 255.0f), FloatEq(64 / 255.0f)));
  Solarize(grey.picture(), 0.5f);
  EXPECT_THAT(grey.values, ElementsAre(FloatEq(63 / 255.0f), FloatEq(64 / 255.0f)));
}

TEST(PictureOps, AutoContrastSpreadsEachChannelAndLeavesAFlatOneAlone) {
  std::vector<float> values = {0.25f, 0.5f, 0.3f, 0.3f};
  AutoContrast({values.data(), 2, 1, 2});
  EXPECT_THAT(values, ElementsAre(0.0f, 1.0f, 0.3f, 0.3f));
}

TEST(PictureOps, EqualizeFollowsPillowsTable) {
  // 512 pixels, half of level 10 and half of level 20: step (512 - 256) / 255 = 1, so level 10 goes
  // to 0 and level 20 to 256, which is cut to 255.
  Grey grey{std::vector<float>(512), 16, 32};
  for (size_t i = 0; i < 512; ++i) grey.values[i] = (i % 2 == 0 ? 10 : 20) / 255.0f;
  Equalize(grey.picture());
  EXPECT_FLOAT_EQ(grey.values[0], 0.0f);
  EXPECT_FLOAT_EQ(grey.values[1], 1.0f);
}

TEST(PictureOps, GeometryMovesPixelsWhereTheNameSays) {
  Grey grey = Ramp();
  Translate(grey.picture(), 1, 0);
  EXPECT_THAT(grey.values, ElementsAre(0, 0.0f, 0.1f, 0, 0.3f, 0.4f, 0, 0.6f, 0.7f));
  grey = Ramp();
  Translate(grey.picture(), 0, -1);
  EXPECT_THAT(grey.values, ElementsAre(0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0, 0, 0));
  grey = Ramp();
  FlipHorizontally(grey.picture());
  EXPECT_THAT(grey.values, ElementsAre(0.2f, 0.1f, 0.0f, 0.5f, 0.4f, 0.3f, 0.8f, 0.7f, 0.6f));
  grey = Ramp();
  Rotate(grey.picture(), 90);  // clockwise: the first column becomes the first row, turned
  EXPECT_THAT(grey.values, ElementsAre(0.6f, 0.3f, 0.0f, 0.7f, 0.4f, 0.1f, 0.8f, 0.5f, 0.2f));
  grey = Ramp();
  // The corner stays, and each row goes a pixel further than the one above; half a pixel the first.
  ShearFromCorner(grey.picture(), 0.9, 0);
  EXPECT_THAT(grey.values, ElementsAre(0.0f, 0.1f, 0.2f, 0, 0.3f, 0.4f, 0, 0, 0.6f));
}

TEST(PictureOps, CropAndResizeOfTheWholeIsThePictureAndOfAQuarterIsEnlarged) {
  Grey grey = Ramp();
  CropAndResize(grey.picture(), {0, 0, 3, 3});
  EXPECT_THAT(grey.values, Pointwise(FloatNear(1e-6f), Ramp().values));
  Grey flat{{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 4};
  CropAndResize(flat.picture(), {0, 2, 2, 2});
  EXPECT_THAT(flat.values, ::testing::Each(1.0f));
}

TEST(PictureOps, EraseFillsTheWindowOfEveryChannel) {
  std::vector<float> values(2 * 2 * 2, 1.0f);
  Erase({values.data(), 2, 2, 2}, {1, 0, 1, 2}, 0.5f);
  EXPECT_THAT(values, ElementsAre(1, 1, 0.5f, 0.5f, 1, 1, 0.5f, 0.5f));
}

}  // namespace
}  // namespace muster::worker
