#include "worker/data/augment/picture_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

// One channel.
struct Grey {
  std::vector<float> values;
  int64_t height, width;
  Picture picture() { return {values.data(), 1, height, width}; }
};

Grey Ramp() { return {{0.0f, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f}, 3, 3}; }

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
  Erase({values.data(), 2, 2, 2}, {1, 0, 1, 2}, {0.5f});
  EXPECT_THAT(values, ElementsAre(1, 1, 0.5f, 0.5f, 1, 1, 0.5f, 0.5f));
}

TEST(PictureOps, EraseTakesAValueForEachChannel) {
  std::vector<float> values(2 * 1 * 2, 1.0f);
  Erase({values.data(), 2, 1, 2}, {0, 1, 1, 1}, {0.25f, 0.75f});
  EXPECT_THAT(values, ElementsAre(1, 0.25f, 1, 0.75f));
}

TEST(PictureOps, NoiseFillsTheWindowAloneAndIsTheSameOfTheSameStream) {
  std::vector<float> values(3 * 4 * 4, 2.0f), again = values;
  const RandomStream random(5, 12, {1, 2});
  EraseWithNoise({values.data(), 3, 4, 4}, {1, 1, 2, 3}, random);
  EraseWithNoise({again.data(), 3, 4, 4}, {1, 1, 2, 3}, random);
  EXPECT_EQ(values, again);
  std::set<float> erased;
  for (const float value : values) {
    if (value != 2.0f) erased.insert(value);
  }
  EXPECT_EQ(erased.size(), 3u * 2 * 3);  // no two alike
  EXPECT_GE(*erased.begin(), 0.0f);
  EXPECT_LT(*erased.rbegin(), 1.0f);
}

TEST(PictureOps, AVerticalFlipTurnsRowsOver) {
  Grey grey = Ramp();
  FlipVertically(grey.picture());
  EXPECT_THAT(grey.values, ElementsAre(0.6f, 0.7f, 0.8f, 0.3f, 0.4f, 0.5f, 0.0f, 0.1f, 0.2f));
}

}  // namespace
}  // namespace muster::worker
