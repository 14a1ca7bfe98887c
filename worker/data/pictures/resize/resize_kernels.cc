#include "worker/data/pictures/resize/resize_kernels.h"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "worker/kernels/instruction_sets.h"

namespace muster::worker {
namespace {

constexpr int kWeightsOfGroup = 16;

void NarrowColourRowPlain(const uint8_t* row, const int32_t* first, const int16_t* pair_weights,
                          int groups, int precision_bits, int32_t outputs, uint8_t* out) {
  const int32_t half = 1 << (precision_bits - 1);
  for (int32_t output = 0; output < outputs; ++output) {
    const uint8_t* pixels = row + 4 * static_cast<size_t>(first[output]);
    const int16_t* weights =
        pair_weights + static_cast<size_t>(output) * static_cast<size_t>(groups) * kWeightsOfGroup;
    int32_t red = half, green = half, blue = half;
    for (int tap = 0; tap < kPixelGroup * groups; ++tap) {
      const int32_t weight = weights[tap / 4 * kWeightsOfGroup + tap % 4 / 2 * 8 + tap % 2];
      red += weight * pixels[4 * tap];
      green += weight * pixels[4 * tap + 1];
      blue += weight * pixels[4 * tap + 2];
    }
    out[3 * output] = static_cast<uint8_t>(red >> precision_bits);
    out[3 * output + 1] = static_cast<uint8_t>(green >> precision_bits);
    out[3 * output + 2] = static_cast<uint8_t>(blue >> precision_bits);
  }
}

void MixRowsPlain(const uint8_t* rows, size_t stride, const int16_t* weights, int taps,
                  int precision_bits, size_t bytes, uint8_t* out) {
  constexpr size_t kBlock = 64;  // sums that stay in registers
  for (size_t begin = 0; begin < bytes; begin += kBlock) {
    const size_t size = bytes - begin < kBlock ? bytes - begin : kBlock;
    int32_t sums[kBlock];
    for (size_t i = 0; i < kBlock; ++i) sums[i] = 1 << (precision_bits - 1);
    for (int tap = 0; tap < taps; ++tap) {
      const uint8_t* row = rows + static_cast<size_t>(tap) * stride + begin;
      const int32_t weight = weights[tap];
      for (size_t i = 0; i < size; ++i) sums[i] += weight * row[i];
    }
    for (size_t i = 0; i < size; ++i)
      out[begin + i] = static_cast<uint8_t>(sums[i] >> precision_bits);
  }
}

#if defined(__x86_64__)
// Four RGBX pixels as words: R0 R1 G0 G1 B0 B1 X0 X1, and so of pixels 2 and 3 above.
MUSTER_AVX2 [[gnu::always_inline]] inline __m256i SumTaps(const uint8_t* pixels,
                                                          const int16_t* weights, int groups,
                                                          __m256i spread) {
  __m256i sum = _mm256_setzero_si256();
  for (int group = 0; group < groups; ++group) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + 16 * group));
    const __m256i words = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(four), spread);
    const __m256i weight =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + kWeightsOfGroup * group));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, weight));
  }
  return sum;
}

// The sums of two outputs, one in each half.
MUSTER_AVX2 [[gnu::always_inline]] inline __m256i JoinHalves(__m256i a, __m256i b) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

MUSTER_AVX2 [[gnu::always_inline]] inline void NarrowColourRowAvx2Of(
    const uint8_t* row, const int32_t* first, const int16_t* pair_weights, int groups,
    int precision_bits, int32_t outputs, uint8_t* out) {
  const __m256i spread =
      _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, 8, -1, 12, -1, 9, -1,
                       13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
  const __m128i drop = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m256i half = _mm256_set1_epi32(1 << (precision_bits - 1));
  const __m128i shift = _mm_cvtsi32_si128(precision_bits);
  const size_t step = static_cast<size_t>(groups) * kWeightsOfGroup;
  for (int32_t output = 0; output < outputs; output += kPixelGroup) {
    const __m256i a =
        SumTaps(row + 4 * static_cast<size_t>(first[output]), pair_weights, groups, spread);
    const __m256i b = SumTaps(row + 4 * static_cast<size_t>(first[output + 1]), pair_weights + step,
                              groups, spread);
    const __m256i c = SumTaps(row + 4 * static_cast<size_t>(first[output + 2]),
                              pair_weights + 2 * step, groups, spread);
    const __m256i d = SumTaps(row + 4 * static_cast<size_t>(first[output + 3]),
                              pair_weights + 3 * step, groups, spread);
    pair_weights += 4 * step;
    const __m256i ab = _mm256_sra_epi32(_mm256_add_epi32(JoinHalves(a, b), half), shift);
    const __m256i cd = _mm256_sra_epi32(_mm256_add_epi32(JoinHalves(c, d), half), shift);
    const __m256i words = _mm256_packs_epi32(ab, cd);  // a c | b d
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const __m128i pixels =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * static_cast<size_t>(output)),
                     _mm_shuffle_epi8(pixels, drop));
  }
}

MUSTER_AVX2 void NarrowColourRowAvx2(const uint8_t* row, const int32_t* first,
                                     const int16_t* pair_weights, int groups, int precision_bits,
                                     int32_t outputs, uint8_t* out) {
  // The loops over the groups of the usual crops are unrolled.
  if (groups == 1) {
    NarrowColourRowAvx2Of(row, first, pair_weights, 1, precision_bits, outputs, out);
  } else if (groups == 2) {
    NarrowColourRowAvx2Of(row, first, pair_weights, 2, precision_bits, outputs, out);
  } else {
    NarrowColourRowAvx2Of(row, first, pair_weights, groups, precision_bits, outputs, out);
  }
}

MUSTER_AVX2 void MixRowsAvx2(const uint8_t* rows, size_t stride, const int16_t* weights, int taps,
                             int precision_bits, size_t bytes, uint8_t* out) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i half = _mm256_set1_epi32(1 << (precision_bits - 1));
  const __m128i shift = _mm_cvtsi32_si128(precision_bits);
  for (size_t begin = 0; begin < bytes; begin += 32) {
    __m256i sum0 = half, sum1 = half, sum2 = half, sum3 = half;
    for (int tap = 0; tap < taps; tap += 2) {
      const uint8_t* at = rows + static_cast<size_t>(tap) * stride + begin;
      int32_t two;
      std::memcpy(&two, weights + tap, sizeof(two));
      const __m256i weight = _mm256_set1_epi32(two);
      const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + stride));
      const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
      sum0 = _mm256_add_epi32(sum0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weight));
      sum1 = _mm256_add_epi32(sum1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weight));
      sum2 = _mm256_add_epi32(sum2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weight));
      sum3 = _mm256_add_epi32(sum3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weight));
    }
    const __m256i low =
        _mm256_packs_epi32(_mm256_sra_epi32(sum0, shift), _mm256_sra_epi32(sum1, shift));
    const __m256i high =
        _mm256_packs_epi32(_mm256_sra_epi32(sum2, shift), _mm256_sra_epi32(sum3, shift));
    const __m256i all = _mm256_packus_epi16(low, high);
    if (bytes - begin >= 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + begin), all);
    } else {
      uint8_t rest[32];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rest), all);
      std::memcpy(out + begin, rest, bytes - begin);
    }
  }
}
#endif

}  // namespace

void NarrowColourRow(const uint8_t* row, const int32_t* first, const int16_t* pair_weights,
                     int groups, int precision_bits, int32_t outputs, bool portable, uint8_t* out) {
#if defined(__x86_64__)
  if (!portable && HasAvx2()) {
    return NarrowColourRowAvx2(row, first, pair_weights, groups, precision_bits, outputs, out);
  }
#endif
  NarrowColourRowPlain(row, first, pair_weights, groups, precision_bits, outputs, out);
}

void MixRows(const uint8_t* rows, size_t stride, const int16_t* weights, int taps,
             int precision_bits, size_t bytes, bool portable, uint8_t* out) {
#if defined(__x86_64__)
  if (!portable && HasAvx2()) {
    return MixRowsAvx2(rows, stride, weights, taps, precision_bits, bytes, out);
  }
#endif
  MixRowsPlain(rows, stride, weights, taps, precision_bits, bytes, out);
}

}  // namespace muster::worker
