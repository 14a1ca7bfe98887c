// The two inner loops of row_resizer.h, by AVX2 where the processor has it: bit-equal to the plain
// loops, since all of it is integer arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::worker {

// Pixels are taken four at a time.
inline constexpr int kPixelGroup = 4;
// What the kernels may read and write behind the rows that they are given.
inline constexpr size_t kKernelSlackBytes = 64;

// Makes `outputs` RGB pixels of a row of RGBX pixels. `first` and `pair_weights` are there for
// `outputs` rounded up to kPixelGroup; the weights of an output are, for each group of four taps,
// (w0 w1) four times and (w2 w3) four times.
void NarrowColourRow(const uint8_t* row, const int32_t* first, const int16_t* pair_weights,
                     int groups, int precision_bits, int32_t outputs, bool portable, uint8_t* out);

// One output row of `bytes` bytes, of `taps` (an even number) rows that lie `stride` apart.
void MixRows(const uint8_t* rows, size_t stride, const int16_t* weights, int taps,
             int precision_bits, size_t bytes, bool portable, uint8_t* out);

}  // namespace muster::worker
