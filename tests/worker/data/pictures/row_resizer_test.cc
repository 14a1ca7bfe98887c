#include "worker/data/pictures/resize/row_resizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/pictures/decoded_crop.h"
#include "worker/data/pictures/resize/triangle_taps.h"

namespace muster::testing {
namespace {

using ::muster::worker::CropBox;
using ::muster::worker::MakeTriangleTaps;
using ::muster::worker::ResizeAxis;
using ::muster::worker::RowResizer;
using ::muster::worker::TriangleTaps;

// The filter as it is written in textbooks, in floating point.
std::vector<double> ResizeSide(const std::vector<double>& in, double begin, double length,
                               int outputs) {
  std::vector<double> out;
  const double scale = length / outputs, support = std::max(1.0, scale);
  for (int output = 0; output < outputs; ++output) {
    const double centre = begin + (output + 0.5) * scale;
    double sum = 0, weights = 0;
    for (size_t at = 0; at < in.size(); ++at) {
      const double distance = std::abs(static_cast<double>(at) + 0.5 - centre) / support;
      const double weight = std::max(0.0, 1 - distance);
      sum += weight * in[at];
      weights += weight;
    }
    out.push_back(sum / weights);
  }
  return out;
}

TEST(TriangleTaps, SumUpToOneAndAreThoseOfTheFilter) {
  for (const int length : {1, 2, 3, 5, 8, 100, 375, 999}) {
    for (const int outputs : {1, 2, 3, 7, 64, 150}) {
      for (const int denominator : {1, 2, 4, 8}) {
        ResizeAxis axis{(length + denominator - 1) / denominator + 1, denominator / 2, length,
                        denominator};
        TriangleTaps taps;
        MakeTriangleTaps(axis, outputs, false, 4, taps);
        ASSERT_EQ(taps.taps % 4, 0);
        ASSERT_GE(taps.precision_bits, 14);
        const double one = 1 << taps.precision_bits;
        for (int output = 0; output < outputs; ++output) {
          const int16_t* weights = taps.weights.data() + output * taps.taps;
          ASSERT_GE(taps.first[static_cast<size_t>(output)], 0);
          ASSERT_LE(taps.first[static_cast<size_t>(output)] + taps.taps, axis.pixels + 3);
          ASSERT_EQ(std::accumulate(weights, weights + taps.taps, 0), 1 << taps.precision_bits);
          std::vector<double> unit(static_cast<size_t>(axis.pixels));
          const size_t at =
              static_cast<size_t>(taps.first[static_cast<size_t>(output)] + output % taps.taps);
          if (at >= unit.size()) continue;
          unit[at] = 1;
          const double wanted = ResizeSide(unit, static_cast<double>(axis.begin) / denominator,
                                           static_cast<double>(length) / denominator,
                                           outputs)[static_cast<size_t>(output)];
          ASSERT_NEAR(weights[output % taps.taps] / one, wanted, 1.01 / one)
              << length << " to " << outputs << " at 1/" << denominator;
        }
      }
    }
  }
}

TEST(TriangleTaps, TheLargestSidesKeepTheirPrecision) {
  TriangleTaps taps;
  MakeTriangleTaps({65535, 0, 65535, 1}, 1, false, 4, taps);
  EXPECT_EQ(std::accumulate(taps.weights.begin(), taps.weights.end(), int64_t{0}),
            int64_t{1} << taps.precision_bits);
  MakeTriangleTaps({8192, 3, 65530, 8}, 65535, true, 4, taps);
  EXPECT_EQ(taps.first.size(), 65535u);
}

TEST(RowResizer, IsTheFilterWithinOneLevel) {
  const Pixels photo = MakePhoto(61, 47, 3, 1);
  for (const auto& [width, height] : {std::pair(24, 20), std::pair(61, 47), std::pair(90, 11),
                                      std::pair(1, 1), std::pair(224, 224)}) {
    const CropBox crop{5, 3, 50, 41};
    const auto got = CropAndResize(photo, crop, width, height, false);
    for (int channel = 0; channel < 3; ++channel) {
      std::vector<std::vector<double>> columns(static_cast<size_t>(width));
      for (int y = 0; y < crop.height; ++y) {
        std::vector<double> row;
        for (int x = 0; x < crop.width; ++x)
          row.push_back(photo.at(crop.x + x, crop.y + y)[channel]);
        const auto narrow = ResizeSide(row, 0, crop.width, width);
        for (size_t x = 0; x < narrow.size(); ++x) columns[x].push_back(narrow[x]);
      }
      for (int x = 0; x < width; ++x) {
        const auto column = ResizeSide(columns[static_cast<size_t>(x)], 0, crop.height, height);
        for (int y = 0; y < height; ++y) {
          ASSERT_NEAR(got[static_cast<size_t>((y * width + x) * 3 + channel)],
                      column[static_cast<size_t>(y)], 1.05);
        }
      }
    }
  }
}

TEST(RowResizer, IsTheSameWithoutTheProcessorsOwnInstructions) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int channels = seed % 3 == 0 ? 1 : 3;
    const Pixels photo = MakePhoto(70, 50, channels, seed, 120);
    const CropBox crop = SomeCrop(70, 50, seed);
    const int width = 1 + static_cast<int>(SplitMix64(seed + 7) % 90);
    const int height = 1 + static_cast<int>(SplitMix64(seed + 8) % 90);
    ASSERT_EQ(CropAndResize(photo, crop, width, height, seed % 2 == 0, true),
              CropAndResize(photo, crop, width, height, seed % 2 == 0, false));
  }
}

TEST(RowResizer, LeavesAPictureOfTheSameSizeAndAnEvenOneAsTheyAre) {
  const Pixels photo = MakePhoto(33, 21, 3, 4);
  EXPECT_EQ(CropAndResize(photo, {0, 0, 33, 21}, 33, 21, false), photo.values);
  for (const int level : {0, 1, 127, 254, 255}) {
    Pixels even{40, 30, 3, std::vector<uint8_t>(40 * 30 * 3, static_cast<uint8_t>(level))};
    const auto resized = CropAndResize(even, {1, 2, 37, 23}, 224, 9, true);
    EXPECT_EQ(resized, std::vector<uint8_t>(resized.size(), static_cast<uint8_t>(level)));
  }
}

TEST(RowResizer, FlipsWhatItWouldHaveMade) {
  const Pixels photo = MakePhoto(64, 40, 3, 5);
  const auto straight = CropAndResize(photo, {3, 4, 50, 30}, 22, 17, false);
  const auto flipped = CropAndResize(photo, {3, 4, 50, 30}, 22, 17, true);
  for (size_t y = 0; y < 17; ++y) {
    for (size_t x = 0; x < 22; ++x) {
      for (size_t c = 0; c < 3; ++c)
        ASSERT_EQ(flipped[(y * 22 + x) * 3 + c], straight[(y * 22 + 21 - x) * 3 + c]);
    }
  }
}

TEST(RowResizer, RefusesWhatTakesTooMuchMemory) {
  RowResizer resizer;
  resizer.SetGoal({65535, 10});
  EXPECT_THAT(resizer.Begin({100, 0, 100}, {65535, 0, 65535}, 3, 1 << 20),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("65535 rows")));
}

}  // namespace
}  // namespace muster::testing
