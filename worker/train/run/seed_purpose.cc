#include "worker/train/run/seed_purpose.h"

#include "common/base/rng.h"

namespace muster::worker {

uint64_t SeedFor(uint64_t seed, SeedPurpose purpose) {
  return DeriveSeed(seed, static_cast<uint64_t>(purpose));
}

uint64_t SampleSeed(uint64_t seed, int64_t step) {
  return DeriveSeed(SeedFor(seed, SeedPurpose::kSamples), static_cast<uint64_t>(step));
}

}  // namespace muster::worker
