#include "worker/data/augment/random_window.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::worker {
namespace {

TEST(RandomWindow, PowersOfTwoAgreeWithLibm) {
  for (uint32_t log2 = 0; log2 < (1u << 18); log2 += 37) {
    const double wanted = std::exp2(static_cast<double>(log2) / 65536);
    EXPECT_NEAR(static_cast<double>(Exp2Q32(log2)) * 0x1.0p-32, wanted, wanted * 0x1.0p-31);
  }
  EXPECT_EQ(Exp2Q32(0), uint64_t{1} << 32);
  EXPECT_EQ(Exp2Q32(65536), uint64_t{2} << 32);
}

TEST(RandomWindow, LiesInsideWithTheShareAndTheRatioThatWereAskedFor) {
  const WindowRange range = {0.08, 0.5, 4.0 / 3};
  RandomStream random(3, 1, {0, 0});
  double shares = 0, logs = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const auto window = DrawWindow(400, 300, range, random);
    ASSERT_TRUE(window.has_value());
    EXPECT_GE(window->top, 0);
    EXPECT_GE(window->left, 0);
    EXPECT_LE(window->top + window->height, 400);
    EXPECT_LE(window->left + window->width, 300);
    const double height = static_cast<double>(window->height);
    const double width = static_cast<double>(window->width);
    EXPECT_NEAR(height * width / 120000, 0.29, 0.21 + 0.005);
    EXPECT_LE(std::abs(std::log(height / width)), std::log(4.0 / 3) + 0.01);
    shares += height * width / 120000;
    logs += std::log(height / width);
  }
  EXPECT_NEAR(shares / kDraws, 0.29, 0.01);
  EXPECT_NEAR(logs / kDraws, 0, 0.01);
}

// Literal values: what a seed means does not change.
TEST(RandomWindow, IsTheSameForEver) {
  RandomStream random(3, 1, {2, 1000});
  EXPECT_EQ(DrawWindow(375, 500, {0.08, 1, 4.0 / 3}, random), (Window{10, 16, 331, 428}));
  EXPECT_EQ(DrawWindow(32, 32, {0.02, 0.33, 1 / 0.3}, random), (Window{14, 5, 11, 24}));
}

TEST(RandomWindow, OfTheWholeIsTheWhole) {
  RandomStream random(3, 1, {0, 0});
  EXPECT_EQ(DrawWindow(7, 7, {1, 1, 1}, random), (Window{0, 0, 7, 7}));
}

TEST(RandomWindow, ThatDoesNotFitIsNone) {
  RandomStream random(3, 1, {0, 0});
  EXPECT_EQ(DrawWindow(1, 1000, {0.9, 1, 4.0 / 3}, random), std::nullopt);
}

TEST(RandomWindow, OfTheLargestPicturesDoesNotOverflow) {
  RandomStream random(3, 1, {0, 0});
  const int64_t side = int64_t{1} << 20;
  for (int i = 0; i < 100; ++i) {
    const auto window = DrawWindow(side, side, {0.02, 0.33, 1 / 0.3}, random);
    ASSERT_TRUE(window.has_value());
    const double area = static_cast<double>(window->height) * static_cast<double>(window->width);
    EXPECT_NEAR(area * 0x1.0p-40, 0.175, 0.156);
  }
}

TEST(MiddleWindow, IsAsLargeAsTheRatioLetsItBe) {
  EXPECT_EQ(MiddleWindow(300, 400, 4.0 / 3), (Window{0, 0, 300, 400}));
  EXPECT_EQ(MiddleWindow(300, 1000, 4.0 / 3), (Window{0, 300, 300, 400}));
  EXPECT_EQ(MiddleWindow(1000, 300, 4.0 / 3), (Window{300, 0, 400, 300}));
  EXPECT_EQ(MiddleWindow(1, 1, 4.0 / 3), (Window{0, 0, 1, 1}));
}

}  // namespace
}  // namespace muster::worker
