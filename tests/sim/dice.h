// The simulation's only source of chance: a stream of numbers from one seed. Fork gives a part of
// the world its own stream, so that a change in one part does not shift the fate of the others.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/rng.h"

namespace muster::sim {

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(SplitMix64(seed)) {}

  Dice Fork() { return Dice(Next()); }
  uint64_t Next() { return DeriveSeed(seed_, ++drawn_); }
  // 0 to n - 1; n is at least 1.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // Both ends included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return absl::Milliseconds(
        Between(absl::ToInt64Milliseconds(low), absl::ToInt64Milliseconds(high)));
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Unit() < probability; }
  // Waiting times of a fault that comes on average every `mean`.
  absl::Duration Exponential(absl::Duration mean) {
    return absl::Milliseconds(1) + mean * -std::log(1 - Unit());
  }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

}  // namespace muster::sim
