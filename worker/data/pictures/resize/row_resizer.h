// Resizes a picture whose rows come one by one, with the weights of triangle_taps.h.
//
// The decoders of pictures push the rows of a crop as they decode them; each is made narrow at
// once, so that the crop is never held at its full width, and the columns are resized at the end.
// Between the two, values are rounded to 8 bits, as PIL does: results differ from PIL's by at most
// 1. The same bytes on every machine. For one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/data/pictures/resize/triangle_taps.h"

namespace muster::worker {

class RowResizer {
 public:
  // A row that is pushed has so many bytes behind it that may be read.
  static constexpr size_t kSlackBytes = 16;

  struct Goal {
    int32_t width = 0;
    int32_t height = 0;
    bool reverse_x = false;
    bool reverse_y = false;
  };

  // `portable` keeps to what every processor has, to test that it makes no difference.
  explicit RowResizer(bool portable = false) : portable_(portable) {}

  void SetGoal(const Goal& goal) { goal_ = goal; }
  const Goal& goal() const { return goal_; }

  // Begins a picture of y.pixels rows of x.pixels pixels: 4 bytes each for channels = 3 (the fourth
  // is not used), 1 byte for channels = 1. RESOURCE_EXHAUSTED when it takes more than max_bytes.
  absl::Status Begin(const ResizeAxis& x, const ResizeAxis& y, int channels, int64_t max_bytes);
  // y.pixels times, from the top.
  void Push(const uint8_t* row);
  // Writes [height, width, channels] of the goal, or [width, height, channels] when it is asked to
  // change rows and columns. A grey picture may be written with 3 equal channels.
  void Finish(int channels, bool transpose, uint8_t* out);

 private:
  void MakeRow(int32_t y, uint8_t* out);

  bool portable_;
  Goal goal_;
  int channels_ = 0;
  int32_t rows_ = 0, pushed_ = 0;
  TriangleTaps x_, y_;
  std::vector<int16_t> pair_weights_;  // those of x_, as the kernel of three channels wants them
  size_t narrow_stride_ = 0;
  std::vector<uint8_t> narrow_;  // [rows, goal_.width, channels_]
  std::vector<uint8_t> row_;
};

}  // namespace muster::worker
