// What a decoder's result is compared with: the same crop of pixels that were decoded in full.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data/pictures/resize/row_resizer.h"

namespace muster::testing {

// Crops and resizes by Muster's own filter, which has a test of its own.
inline std::vector<uint8_t> CropAndResize(const Pixels& pixels, const worker::CropBox& crop,
                                          int width, int height, bool flip, bool portable = false) {
  worker::RowResizer resizer(portable);
  resizer.SetGoal({width, height, flip, false});
  const int channels = pixels.channels == 1 ? 1 : 3;
  const auto begun = resizer.Begin({crop.width, 0, crop.width}, {crop.height, 0, crop.height},
                                   channels, int64_t{1} << 40);
  if (!begun.ok()) return {};
  std::vector<uint8_t> row;
  for (int y = crop.y; y < crop.y + crop.height; ++y) {
    row.clear();
    for (int x = crop.x; x < crop.x + crop.width; ++x) {
      const uint8_t* pixel = pixels.at(x, y);
      row.insert(row.end(), pixel, pixel + channels);
      if (channels == 3) row.push_back(99);  // no part of the picture
    }
    row.resize(row.size() + worker::RowResizer::kSlackBytes, 77);
    resizer.Push(row.data());
  }
  std::vector<uint8_t> out(static_cast<size_t>(width * height * channels));
  resizer.Finish(channels, /*transpose=*/false, out.data());
  return out;
}

struct Ask {
  int width = 24;
  int height = 20;
  int channels = 3;
  bool flip = false;
  bool upright = false;
};

inline absl::StatusOr<std::vector<uint8_t>> DecodeCrop(worker::PictureDecoder& decoder,
                                                       absl::string_view bytes,
                                                       const worker::CropBox& crop,
                                                       const Ask& ask) {
  MUSTER_ASSIGN_OR_RETURN(const worker::PictureHeader header, worker::ReadPictureHeader(bytes));
  // As large as it has to be, so that a write beyond it is found.
  std::vector<uint8_t> out(static_cast<size_t>(ask.width) * static_cast<size_t>(ask.height) *
                           static_cast<size_t>(ask.channels));
  MUSTER_RETURN_IF_ERROR(
      decoder.Decode(bytes, header, crop,
                     {ask.width, ask.height, ask.channels, ask.flip, ask.upright, out.data()}));
  return out;
}

// Of a picture of that size; all kinds of places, from one pixel to the whole.
inline worker::CropBox SomeCrop(int width, int height, uint64_t seed) {
  worker::CropBox crop;
  crop.width = 1 + static_cast<int>(SplitMix64(seed) % static_cast<uint64_t>(width));
  crop.height = 1 + static_cast<int>(SplitMix64(seed + 1) % static_cast<uint64_t>(height));
  crop.x = static_cast<int>(SplitMix64(seed + 2) % static_cast<uint64_t>(width - crop.width + 1));
  crop.y = static_cast<int>(SplitMix64(seed + 3) % static_cast<uint64_t>(height - crop.height + 1));
  return crop;
}

struct Difference {
  int largest = 0;
  double mean = 0;
};
inline Difference Compare(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.size() != b.size() || a.empty()) return {256, 256};
  Difference difference;
  for (size_t i = 0; i < a.size(); ++i) {
    const int one = std::abs(a[i] - b[i]);
    difference.largest = std::max(difference.largest, one);
    difference.mean += one;
  }
  difference.mean /= static_cast<double>(a.size());
  return difference;
}

}  // namespace muster::testing
