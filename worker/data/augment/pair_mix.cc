#include "worker/data/augment/pair_mix.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {
namespace {

// A square for the picture's proportions, of so much of the area, with its middle anywhere in it;
// what reaches outside is cut off.
Window DrawPaste(double area, int64_t height, int64_t width, RandomStream& random) {
  const double side = std::sqrt(area);
  const auto rows = static_cast<int64_t>(side * static_cast<double>(height));
  const auto columns = static_cast<int64_t>(side * static_cast<double>(width));
  const int64_t middle_y = random.Below(height), middle_x = random.Below(width);
  const int64_t top = std::max<int64_t>(0, middle_y - rows / 2);
  const int64_t left = std::max<int64_t>(0, middle_x - columns / 2);
  const int64_t bottom = std::min(height, middle_y + (rows + 1) / 2);
  const int64_t right = std::min(width, middle_x + (columns + 1) / 2);
  return {top, left, bottom - top, right - left};
}

float Rounded(double share) { return static_cast<float>(std::round(share * 0x1.0p24) * 0x1.0p-24); }

}  // namespace

PairMix DrawPairMix(double mixup, double cutmix, int64_t height, int64_t width,
                    RandomStream& random) {
  const bool pastes = cutmix > 0 && (mixup <= 0 || random.Chance(0.5));
  const float share = Rounded(random.Beta(pastes ? cutmix : mixup));
  if (!pastes) return {share, false, {}};
  const Window window = DrawPaste(1 - static_cast<double>(share), height, width, random);
  const double pasted =
      static_cast<double>(window.height * window.width) / static_cast<double>(height * width);
  return {Rounded(1 - pasted), true, window};
}

void MixPair(const PairMix& mix, Picture one, Picture other) {
  if (mix.pastes) {
    for (int64_t channel = 0; channel < one.channels; ++channel) {
      for (int64_t row = 0; row < mix.window.height; ++row) {
        const int64_t begin =
            channel * one.plane() + (mix.window.top + row) * one.width + mix.window.left;
        std::swap_ranges(one.values + begin, one.values + begin + mix.window.width,
                         other.values + begin);
      }
    }
    return;
  }
  const float share = mix.share, rest = mix.rest();
  for (int64_t i = 0; i < one.size(); ++i) {
    const float first = one.values[i], second = other.values[i];
    one.values[i] = first * share + second * rest;
    other.values[i] = second * share + first * rest;
  }
}

}  // namespace muster::worker
