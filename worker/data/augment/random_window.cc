#include "worker/data/augment/random_window.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace muster::worker {
namespace {

// Fixed point: qN counts in units of 1/2^N.
using Wide = unsigned __int128;

constexpr int kTries = 10;
constexpr int kLogBits = 16;

// floor(sqrt(value)), bit by bit from the top.
constexpr uint64_t SquareRoot(Wide value) {
  uint64_t root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const uint64_t next = root | uint64_t{1} << bit;
    if (Wide{next} * next <= value) root = next;
  }
  return root;
}

// 2^(1/2), 2^(1/4), 2^(1/8), ... in q62.
constexpr std::array<uint64_t, kLogBits> kRootsOfTwo = [] {
  std::array<uint64_t, kLogBits> roots{};
  uint64_t root = uint64_t{2} << 62;
  for (uint64_t& next : roots) next = root = SquareRoot(Wide{root} << 62);
  return roots;
}();

// round(sqrt(value_q48)).
int64_t RoundedRoot(Wide value_q48) {
  return static_cast<int64_t>((SquareRoot(value_q48 >> 46) + 1) / 2);  // that of 4 x value
}

uint64_t ToQ32(double share) { return static_cast<uint64_t>(std::llround(share * 0x1.0p32)); }

}  // namespace

uint64_t Exp2Q32(uint32_t log2_q16) {
  uint64_t result_q62 = uint64_t{1} << 62;
  for (int bit = 0; bit < kLogBits; ++bit) {
    if ((log2_q16 >> (kLogBits - 1 - bit) & 1) == 0) continue;
    result_q62 =
        static_cast<uint64_t>(Wide{result_q62} * kRootsOfTwo[static_cast<size_t>(bit)] >> 62);
  }
  const uint32_t whole = log2_q16 >> kLogBits;
  return result_q62 >> (30 - whole);
}

std::optional<Window> DrawWindow(int64_t height, int64_t width, const WindowRange& range,
                                 RandomStream& random) {
  const auto pixels = static_cast<uint64_t>(height * width);
  const uint64_t least_q32 = ToQ32(range.least_share), most_q32 = ToQ32(range.most_share);
  const int64_t most_log_q16 = std::lround(std::log2(range.most_ratio) * (1 << kLogBits));
  for (int i = 0; i < kTries; ++i) {
    const uint64_t share_q32 =
        least_q32 +
        static_cast<uint64_t>(random.Below(static_cast<int64_t>(most_q32 - least_q32) + 1));
    const uint64_t area_q16 = static_cast<uint64_t>(Wide{pixels} * share_q32 >> 16);
    const int64_t log_q16 = random.Below(2 * most_log_q16 + 1) - most_log_q16;
    const uint64_t ratio_q32 = Exp2Q32(static_cast<uint32_t>(std::abs(log_q16)));
    const uint64_t inverse_q32 = static_cast<uint64_t>((Wide{1} << 64) / ratio_q32);
    int64_t window_height = RoundedRoot(Wide{area_q16} * ratio_q32);
    int64_t window_width = RoundedRoot(Wide{area_q16} * inverse_q32);
    if (log_q16 < 0) std::swap(window_height, window_width);
    if (window_height < 1 || window_width < 1 || window_height > height || window_width > width)
      continue;
    return Window{random.Below(height - window_height + 1), random.Below(width - window_width + 1),
                  window_height, window_width};
  }
  return std::nullopt;
}

Window MiddleWindow(int64_t height, int64_t width, double most_ratio) {
  const auto at_most = [&](int64_t other) {
    return std::max<int64_t>(1, std::llround(static_cast<double>(other) * most_ratio));
  };
  const int64_t window_height = std::min(height, at_most(width));
  const int64_t window_width = std::min(width, at_most(height));
  return {(height - window_height) / 2, (width - window_width) / 2, window_height, window_width};
}

}  // namespace muster::worker
