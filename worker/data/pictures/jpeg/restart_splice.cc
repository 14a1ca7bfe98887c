#include "worker/data/pictures/jpeg/restart_splice.h"

#include <algorithm>

namespace muster::worker {
namespace {

constexpr int64_t kMostSegments = 1 << 22;

uint8_t ByteOf(absl::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool RestartSplicer::Plan(const JpegLayout& layout, const CropBox& crop, Segments& segments) const {
  const bool baseline = layout.frame_marker == 0xC0 || layout.frame_marker == 0xC1;
  if (!baseline || layout.components == 4 || layout.scan_components != layout.components ||
      layout.restart_interval == 0) {
    return false;
  }
  const int64_t interval = layout.restart_interval;
  const int64_t columns = CeilDivide(layout.width, layout.mcu_width);
  const int64_t rows = CeilDivide(layout.height, layout.mcu_height);
  if (columns % interval != 0) return false;
  segments.per_row = columns / interval;
  const int64_t segment_width = interval * layout.mcu_width;
  segments.first = crop.x / segment_width;
  segments.end = CeilDivide(int64_t{crop.x} + crop.width, segment_width);
  segments.first_row = crop.y / layout.mcu_height;
  segments.end_row = CeilDivide(int64_t{crop.y} + crop.height, layout.mcu_height);
  if (rows * segments.per_row > kMostSegments) return false;
  // Without a splice everything is decoded from the first row to the last one that is needed.
  const int64_t taken = (segments.end_row - segments.first_row) * (segments.end - segments.first);
  return 10 * taken <= 9 * segments.end_row * segments.per_row;
}

bool RestartSplicer::FindSegments(absl::string_view jpeg, const JpegLayout& layout, int64_t count,
                                  bool to_end) {
  starts_.clear();
  starts_.push_back(layout.entropy_at);
  size_t at = layout.entropy_at;
  while (static_cast<int64_t>(starts_.size()) <= count) {
    at = jpeg.find('\xFF', at);
    if (at == absl::string_view::npos || at + 1 >= jpeg.size()) return false;
    const uint8_t marker = ByteOf(jpeg, at + 1);
    if (marker == 0xFF) {  // a fill byte before the marker
      ++at;
      continue;
    }
    if (marker != 0) {
      const size_t segment = starts_.size() - 1;
      const bool last = to_end && static_cast<int64_t>(segment) == count - 1;
      const uint8_t expected = last ? 0xD9 : static_cast<uint8_t>(0xD0 + segment % 8);
      if (marker != expected) return false;
      starts_.push_back(at + 2);
    }
    at += 2;
  }
  return true;
}

// All segments before the entropy-coded data but those that only describe the picture: EXIF, ICC
// profiles, comments. Of the APPn, JFIF's and Adobe's say how colours are coded.
void RestartSplicer::CopyTables(absl::string_view jpeg, const JpegLayout& layout) {
  out_.assign("\xFF\xD8", 2);
  size_t at = 2;
  while (at < layout.entropy_at) {
    const uint8_t marker = ByteOf(jpeg, at + 1);
    const size_t length = size_t{ByteOf(jpeg, at + 2)} << 8 | ByteOf(jpeg, at + 3);
    const bool describes = (marker >= 0xE1 && marker <= 0xEF && marker != 0xEE) || marker == 0xFE;
    if (!describes) out_.append(jpeg.data() + at, length + 2);
    if (at == layout.frame_at) {
      char* size = out_.data() + out_.size() - length - 2 + 5;
      size[0] = static_cast<char>(height_ >> 8);
      size[1] = static_cast<char>(height_);
      size[2] = static_cast<char>(width_ >> 8);
      size[3] = static_cast<char>(width_);
    }
    at += length + 2;
  }
}

absl::string_view RestartSplicer::Splice(absl::string_view jpeg, const JpegLayout& layout,
                                         const CropBox& crop) {
  Segments plan;
  if (!layout.plain_segments || !Plan(layout, crop, plan)) return {};
  const bool to_end = plan.end_row == CeilDivide(layout.height, layout.mcu_height);
  if (!FindSegments(jpeg, layout, plan.end_row * plan.per_row, to_end)) return {};
  const int64_t segment_width = int64_t{layout.restart_interval} * layout.mcu_width;
  origin_x_ = static_cast<int32_t>(plan.first * segment_width);
  origin_y_ = static_cast<int32_t>(plan.first_row * layout.mcu_height);
  const int64_t right = std::min<int64_t>(layout.width, plan.end * segment_width);
  const int64_t bottom = std::min<int64_t>(layout.height, plan.end_row * layout.mcu_height);
  width_ = static_cast<int32_t>(right - origin_x_);
  height_ = static_cast<int32_t>(bottom - origin_y_);
  CopyTables(jpeg, layout);
  int number = 0;
  for (int64_t row = plan.first_row; row < plan.end_row; ++row) {
    for (int64_t column = plan.first; column < plan.end; ++column) {
      const size_t segment = static_cast<size_t>(row * plan.per_row + column);
      const size_t start = starts_[segment];
      // With the marker behind it, which is put right.
      out_.append(jpeg.data() + start, starts_[segment + 1] - start);
      out_.back() = static_cast<char>(0xD0 + number++ % 8);
    }
  }
  out_.back() = '\xD9';
  return out_;
}

}  // namespace muster::worker
