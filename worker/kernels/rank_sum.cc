#include "worker/kernels/rank_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "worker/kernels/instruction_sets.h"

namespace muster::worker {
namespace {

using Terms = std::vector<const void*>;

// Partial sums of so many numbers stay in the first-level cache.
constexpr int64_t kCachedNumbers = 1024;

template <typename T>
struct AddedAs {
  using Type = T;
};
template <>
struct AddedAs<c10::BFloat16> {
  using Type = float;
};
template <>
struct AddedAs<c10::Half> {
  using Type = float;
};

template <typename T>
struct SumKernelOf {
  using Sum = typename AddedAs<T>::Type;

  // Of two ranks: in one pass, with nothing put down in between. `out` may be `a` or `b`.
  [[gnu::always_inline]] static void Pair(const T* a, const T* b, Sum scale, int64_t count,
                                          T* out) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<T>((static_cast<Sum>(a[i]) + static_cast<Sum>(b[i])) * scale);
  }

  [[gnu::always_inline]] static void Run(const Terms* all_terms, double scale_of_all, int64_t count,
                                         void* out_of_all) {
    const Terms& terms = *all_terms;
    const Sum scale = static_cast<Sum>(scale_of_all);
    if (terms.size() == 2) {
      return Pair(static_cast<const T*>(terms[0]), static_cast<const T*>(terms[1]), scale, count,
                  static_cast<T*>(out_of_all));
    }
    Sum sums[kCachedNumbers];
    for (int64_t begin = 0; begin < count; begin += kCachedNumbers) {
      const int64_t size = std::min(kCachedNumbers, count - begin);
      const T* first = static_cast<const T*>(terms[0]) + begin;
      for (int64_t i = 0; i < size; ++i) sums[i] = static_cast<Sum>(first[i]);
      for (size_t rank = 1; rank < terms.size(); ++rank) {
        const T* term = static_cast<const T*>(terms[rank]) + begin;
        for (int64_t i = 0; i < size; ++i) sums[i] += static_cast<Sum>(term[i]);
      }
      T* out = static_cast<T*>(out_of_all) + begin;
      for (int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(sums[i] * scale);
    }
  }
};

#if defined(__x86_64__)
// c10 converts a half number by number unless the whole program is built for newer processors.
MUSTER_AVX2 void SumHalvesAvx2(const Terms& terms, double scale_of_all, int64_t count,
                               void* out_of_all) {
  const __m256 scale = _mm256_set1_ps(static_cast<float>(scale_of_all));
  const auto load = [&](size_t rank, int64_t at) __attribute__((target("avx2,fma,f16c"))) {
    const auto* term = static_cast<const c10::Half*>(terms[rank]) + at;
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(term)));
  };
  auto* out = static_cast<c10::Half*>(out_of_all);
  int64_t at = 0;
  for (; at + 8 <= count; at += 8) {
    __m256 sum = load(0, at);
    for (size_t rank = 1; rank < terms.size(); ++rank) sum = _mm256_add_ps(sum, load(rank, at));
    const __m128i rounded = _mm256_cvtps_ph(_mm256_mul_ps(sum, scale), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at), rounded);
  }
  Terms rest;
  for (const void* term : terms) rest.push_back(static_cast<const c10::Half*>(term) + at);
  SumKernelOf<c10::Half>::Run(&rest, scale_of_all, count - at, out + at);
}
#endif

template <typename T>
void Sum(const Terms& terms, double scale, int64_t count, void* out) {
  RunKernel<SumKernelOf<T>>(&terms, scale, count, out);
}

void SumHalves(const Terms& terms, double scale, int64_t count, void* out) {
#if defined(__x86_64__)
  if (HasAvx2()) return SumHalvesAvx2(terms, scale, count, out);
#endif
  SumKernelOf<c10::Half>::Run(&terms, scale, count, out);
}

}  // namespace

bool CanSum(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
    case c10::kDouble:
    case c10::kBFloat16:
    case c10::kHalf:
    case c10::kLong:
    case c10::kInt:
    case c10::kByte:
      return true;
    default:
      return false;
  }
}

void SumRanks(c10::ScalarType type, const Terms& terms, double scale, int64_t count, void* out) {
  switch (type) {
    case c10::kFloat:
      return Sum<float>(terms, scale, count, out);
    case c10::kDouble:
      return Sum<double>(terms, scale, count, out);
    case c10::kBFloat16:
      return Sum<c10::BFloat16>(terms, scale, count, out);
    case c10::kHalf:
      return SumHalves(terms, scale, count, out);
    case c10::kLong:
      return Sum<int64_t>(terms, scale, count, out);
    case c10::kInt:
      return Sum<int32_t>(terms, scale, count, out);
    case c10::kByte:
      return Sum<uint8_t>(terms, scale, count, out);
    default:
      TORCH_CHECK(false, "no sums over ranks of type ", c10::toString(type));
  }
}

}  // namespace muster::worker
