// Numbers drawn one after the other from one seed: for what is drawn for one sample. Pure but for
// its own counter; the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/base/rng.h"

namespace muster::worker {

class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : seed_(seed) {}

  uint64_t Bits() { return SplitMix64(seed_ ^ SplitMix64(counter_++)); }
  // From 0 to below 1.
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1.0p-53; }
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  // From 0 to below `count`, which is at least 1.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(Uniform() * static_cast<double>(count));
  }
  bool Chance(double probability) { return Uniform() < probability; }
  // Beta(alpha, alpha) by Joehnk's method (1964); fine for the alphas that mixing uses.
  double Beta(double alpha) {
    for (;;) {
      const double x = std::pow(Uniform(), 1 / alpha), y = std::pow(Uniform(), 1 / alpha);
      if (x + y <= 1 && x + y > 0) return x / (x + y);
    }
  }

 private:
  const uint64_t seed_;
  uint64_t counter_ = 0;
};

}  // namespace muster::worker
