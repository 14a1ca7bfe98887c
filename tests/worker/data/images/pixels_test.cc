#include "worker/data/images/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::worker {
namespace {

using ::testing::ElementsAreArray;

// Every level in every channel, with bits equal to the arithmetic's.
TEST(Pixels, LevelsAreTheInputsThatTheArithmeticGives) {
  const PixelScale scale{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  std::vector<uint8_t> pixels;
  for (int level = 0; level < 256; ++level) {
    for (const int value : {level, 255 - level, level ^ 85})
      pixels.push_back(static_cast<uint8_t>(value));
  }
  std::vector<float> computed(pixels.size()), looked_up(pixels.size());
  const Picture picture{computed.data(), 3, 16, 16};
  InterleavedToPixels(pixels.data(), picture);
  PixelsToInputs(scale, picture);
  InputLevels(scale).ToInputs(pixels.data(), {looked_up.data(), 3, 16, 16});
  EXPECT_THAT(looked_up, ElementsAreArray(computed));
}

}  // namespace
}  // namespace muster::worker
