// Numbers drawn one after the other for one operation on one sample: a function of the seed, the
// operation, and the sample's place in the order. So it does not matter which thread draws, on
// which rank of how many, or whether the run was resumed; and what one operation draws does not
// depend on which others are switched on.
//
// Used by augmentation. A value: a copy goes on by itself. Bits, Below and Uniform are the same on
// every machine; Beta takes libm's word for log and exp.
#pragma once

#include <cstdint>

#include "worker/data/base/epoch_place.h"
#include "worker/data/base/philox.h"

namespace muster::worker {

class RandomStream {
 public:
  // Requires an operation below 256. Streams differ for positions below 2^56 and epochs below 2^32.
  RandomStream(uint64_t seed, uint32_t operation, const EpochPlace& place)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, static_cast<uint32_t>(place.position),
                 static_cast<uint32_t>(place.position >> 32) | operation << 24,
                 static_cast<uint32_t>(place.epoch)} {}

  uint64_t Bits() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const auto block = Philox4x32(counter_, key_);
    ++counter_[0];
    spare_ = uint64_t{block[3]} << 32 | block[2];
    has_spare_ = true;
    return uint64_t{block[1]} << 32 | block[0];
  }

  // From 0 to below 1.
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1.0p-53; }
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }

  // From 0 to below `count`, which is at least 1; each is equally likely (Lemire 2019).
  int64_t Below(int64_t count) {
    const auto bound = static_cast<uint64_t>(count);
    const uint64_t unfair = -bound % bound;  // 2^64 mod bound
    for (;;) {
      const unsigned __int128 product = static_cast<unsigned __int128>(Bits()) * bound;
      if (static_cast<uint64_t>(product) >= unfair) return static_cast<int64_t>(product >> 64);
    }
  }

  bool Chance(double probability) { return Uniform() < probability; }

  // Beta(alpha, alpha), alpha above 0.
  double Beta(double alpha);

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;  // block; position; the rest of it, and operation; epoch
  uint64_t spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace muster::worker
