// The weights of an antialiased triangle filter along one side of a picture. Pure.
//
// The filter of PIL's and torch's bilinear resize with antialiasing: a triangle as wide as two
// pixels of the source or of the output, whichever are larger, cut off at the box and normalised.
// Everything is exact integer arithmetic, so that the weights are the same on every machine.
// row_resizer.h applies them.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::worker {

// The box to be resized along one side. A pixel of the source is `denominator` units long, so that
// a box chosen in a picture's own pixels may be put to the picture at 1/2, 1/4 or 1/8 of its size.
struct ResizeAxis {
  int32_t pixels = 0;       // that there are, the first from 0 to denominator; 1 to 65,535
  int64_t begin = 0;        // of the box, in units, in the first pixel
  int64_t length = 0;       // of the box, in units, at least 1
  int32_t denominator = 1;  // 1, 2, 4 or 8
};

struct TriangleTaps {
  // Weights are so many 2^-precision_bits: 14 to 22.
  int precision_bits = 0;
  // Weights of each output; those that it does not need are 0.
  int taps = 0;
  std::vector<int32_t> first;    // [outputs] the source pixel of the first weight
  std::vector<int16_t> weights;  // [outputs, taps], each row sums up to 2^precision_bits
};

// Makes the weights of `outputs` (1 to 65,535) pixels; `taps` is made a multiple of `multiple`, so
// first + taps may be up to multiple - 1 beyond the source. Reversed: the last output comes first.
void MakeTriangleTaps(const ResizeAxis& axis, int32_t outputs, bool reversed, int multiple,
                      TriangleTaps& taps);

}  // namespace muster::worker
