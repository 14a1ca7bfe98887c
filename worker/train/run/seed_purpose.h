// One seed gives every stream of random numbers: a function of the purpose and the position, never
// carried along. Pure; needs nothing of torch.
#pragma once

#include <cstdint>

namespace muster::worker {

// Purposes for DeriveSeed (common/base/rng.h). Part of the result: never renumber.
enum class SeedPurpose : uint64_t {
  kInitialWeights = 1,
  kDataOrder = 2,
  kSyntheticData = 3,
  kStep = 4,
  kAugmentation = 5,
  kSamples = 6
};

uint64_t SeedFor(uint64_t seed, SeedPurpose purpose);

// Of what a model draws for the samples of a step by their ids (Samples in
// worker/models/base/model.h).
uint64_t SampleSeed(uint64_t seed, int64_t step);

}  // namespace muster::worker
