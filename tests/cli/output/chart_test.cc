#include "cli/output/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_split.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

TEST(Sparkline, GoesFromLowToHigh) {
  EXPECT_EQ(Sparkline({8, 7, 6, 5, 4, 3, 2, 1}, 8, true), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(Sparkline({0, 1}, 8, false), "_#");
  EXPECT_EQ(Sparkline({}, 8, true), "");
}

TEST(Sparkline, AFlatCurveLiesInTheMiddle) { EXPECT_EQ(Sparkline({3, 3, 3}, 8, true), "▅▅▅"); }

TEST(Sparkline, MoreValuesThanColumnsAreAveraged) {
  EXPECT_EQ(Sparkline({0, 0, 7, 7}, 2, true), "▁█");
}

TEST(Sparkline, WhatIsNotFiniteIsBlank) {
  EXPECT_EQ(Sparkline({0, std::nan(""), 1, std::numeric_limits<double>::infinity()}, 8, true),
            "▁ █ ");
}

TEST(ProgressBar, IsClamped) {
  EXPECT_EQ(ProgressBar(0.5, 4, false), "[##  ]");
  EXPECT_EQ(ProgressBar(0.5, 4, true), "[██░░]");
  EXPECT_EQ(ProgressBar(7, 4, false), "[####]");
  EXPECT_EQ(ProgressBar(-1, 4, false), "[    ]");
  EXPECT_EQ(ProgressBar(std::nan(""), 4, false), "[    ]");
}

TEST(Plot, DrawsAFrameWithRanges) {
  EXPECT_EQ(
      Plot("loss", {{0, 2.0}, {10, 1.0}, {20, 0.0}}, {.width = 22, .height = 3, .unicode = false}),
      "loss: 3 points\n"
      "    2.000 |*\n"
      "          |     *\n"
      "        0 |          *\n"
      "          +-----------\n"
      "           step 0   20\n");
}

TEST(Plot, AFlatCurveHasOneLabelAndNoWidthIsTooSmall) {
  EXPECT_EQ(Plot("lr", {{1, 0.1}, {2, 0.1}}, {.width = 3, .height = 1, .unicode = true}),
            "lr: 2 points\n"
            "   0.1000 │•        •\n"
            "          │\n"
            "          └──────────\n"
            "           step 1   2\n");
}

TEST(Plot, CountsWhatItCannotDraw) {
  EXPECT_EQ(Plot("loss", {{0, std::nan("")}}, {.width = 40, .height = 3, .unicode = false}),
            "loss: 1 points, 1 of them not finite\n");
  EXPECT_EQ(Plot("loss", {}, {.width = 40, .height = 3, .unicode = false}), "loss: 0 points\n");
}

TEST(Plot, ALogarithmicScaleDrawsAnExponentialAsALineAndLeavesOutWhatHasNoLogarithm) {
  EXPECT_EQ(Plot("loss", {{0, 100}, {10, 10}, {20, 1}, {21, 0}, {22, -1}, {23, std::nan("")}},
                 {.width = 22, .height = 3, .unicode = false, .logarithmic = true}),
            "loss: 6 points, 1 of them not finite, logarithmic, 2 not above zero left out\n"
            "    100.0 |*\n"
            "          |     *\n"
            "    1.000 |          *\n"
            "          +-----------\n"
            "           step 0   20\n");
  EXPECT_EQ(Plot("gain", {{0, -1}}, {.logarithmic = true}),
            "gain: 1 points, logarithmic, 1 not above zero left out\n");
}

TEST(Plot, LinesAreNoWiderThanAsked) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({i, std::sin(i / 100.0) * 1e-3});
  for (const absl::string_view line :
       absl::StrSplit(Plot("x", points, {.width = 100, .height = 12}), '\n')) {
    EXPECT_LE(DisplayWidth(line), 100u) << line;
  }
}

}  // namespace
}  // namespace muster::cli
