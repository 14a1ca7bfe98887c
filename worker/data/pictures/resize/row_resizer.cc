#include "worker/data/pictures/resize/row_resizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/data/pictures/resize/resize_kernels.h"

namespace muster::worker {
namespace {

static_assert(RowResizer::kSlackBytes >= 4 * (kPixelGroup - 1), "a group begins in the row");

// As NarrowColourRow wants them; outputs beyond the last have no weight.
void SpreadWeights(const TriangleTaps& taps, std::vector<int32_t>& first,
                   std::vector<int16_t>& spread) {
  const size_t outputs = first.size();
  const size_t padded = (outputs + kPixelGroup - 1) / kPixelGroup * kPixelGroup;
  const size_t of_output = static_cast<size_t>(taps.taps);
  spread.assign(padded * of_output * 4, 0);
  for (size_t output = 0; output < outputs; ++output) {
    for (size_t tap = 0; tap < of_output; ++tap) {
      int16_t* at = spread.data() + (output * of_output + tap / 4 * 4) * 4 + tap % 4 / 2 * 8;
      const int16_t weight = taps.weights[output * of_output + tap];
      for (size_t copy = 0; copy < 4; ++copy) at[2 * copy + tap % 2] = weight;
    }
  }
  first.resize(padded, first.back());
}

}  // namespace

absl::Status RowResizer::Begin(const ResizeAxis& x, const ResizeAxis& y, int channels,
                               int64_t max_bytes) {
  MUSTER_CHECK(channels == 1 || channels == 3, "a picture is grey or of three channels");
  channels_ = channels;
  rows_ = y.pixels;
  pushed_ = 0;
  narrow_stride_ =
      static_cast<size_t>(goal_.width) * static_cast<size_t>(channels) + kKernelSlackBytes;
  const size_t needed = (static_cast<size_t>(rows_) + 1) * narrow_stride_;
  if (needed > static_cast<size_t>(max_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("needs ", needed, " bytes to resize ", rows_,
                                                     " rows to ", goal_.width, " pixels"));
  }
  MakeTriangleTaps(x, goal_.width, goal_.reverse_x, kPixelGroup, x_);
  MakeTriangleTaps(y, goal_.height, goal_.reverse_y, 2, y_);
  if (channels == 3) SpreadWeights(x_, x_.first, pair_weights_);
  // The last row is read with weight 0.
  if (narrow_.size() < needed) narrow_.resize(needed);
  return absl::OkStatus();
}

void RowResizer::Push(const uint8_t* row) {
  MUSTER_CHECK(pushed_ < rows_, "no more rows are pushed than were promised");
  uint8_t* out = narrow_.data() + static_cast<size_t>(pushed_++) * narrow_stride_;
  if (channels_ == 3) {
    NarrowColourRow(row, x_.first.data(), pair_weights_.data(), x_.taps / kPixelGroup,
                    x_.precision_bits, goal_.width, portable_, out);
    return;
  }
  for (int32_t output = 0; output < goal_.width; ++output) {
    const uint8_t* pixels = row + x_.first[static_cast<size_t>(output)];
    const int16_t* weights = x_.weights.data() + output * static_cast<int64_t>(x_.taps);
    int32_t sum = 1 << (x_.precision_bits - 1);
    for (int tap = 0; tap < x_.taps; ++tap) sum += weights[tap] * pixels[tap];
    out[output] = static_cast<uint8_t>(sum >> x_.precision_bits);
  }
}

void RowResizer::MakeRow(int32_t y, uint8_t* out) {
  MixRows(narrow_.data() + static_cast<size_t>(y_.first[static_cast<size_t>(y)]) * narrow_stride_,
          narrow_stride_, y_.weights.data() + y * static_cast<int64_t>(y_.taps), y_.taps,
          y_.precision_bits, static_cast<size_t>(goal_.width) * static_cast<size_t>(channels_),
          portable_, out);
}

void RowResizer::Finish(int channels, bool transpose, uint8_t* out) {
  MUSTER_CHECK(pushed_ == rows_, "as many rows are pushed as were promised");
  const size_t width = static_cast<size_t>(goal_.width), height = static_cast<size_t>(goal_.height);
  const size_t wanted = static_cast<size_t>(channels);
  const bool as_it_is = channels == channels_ && !transpose;
  MUSTER_CHECK(channels == channels_ || channels_ == 1, "colour is made grey before it is resized");
  if (!as_it_is) row_.resize(width * static_cast<size_t>(channels_));
  for (size_t y = 0; y < height; ++y) {
    if (as_it_is) {
      MakeRow(static_cast<int32_t>(y), out + y * width * wanted);
      continue;
    }
    MakeRow(static_cast<int32_t>(y), row_.data());
    for (size_t x = 0; x < width; ++x) {
      uint8_t* pixel = out + (transpose ? x * height + y : y * width + x) * wanted;
      for (size_t c = 0; c < wanted; ++c)
        pixel[c] = channels_ == 1 ? row_[x] : row_[x * wanted + c];
    }
  }
}

}  // namespace muster::worker
