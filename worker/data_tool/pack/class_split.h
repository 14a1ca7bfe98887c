// Which samples are for validation and which for test: by a hash of the key, so that a sample stays
// where it is when others come and go, and class by class, so that each set has each class. Pure.
//
// Used by `muster-data split` and `pack --validation`.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::worker {

struct HashedSample {
  int64_t label = 0;
  uint64_t hash = 0;  // KeyHash
};

uint64_t KeyHash(absl::string_view key, uint64_t seed);

// Of each sample: 0 train, 1 validation, 2 test. Of each class the samples of the lowest hashes,
// its share rounded, are for validation, the next for test. Requires shares from 0 to 1 together.
std::vector<uint8_t> SplitByClass(const std::vector<HashedSample>& samples, double validation,
                                  double test);

}  // namespace muster::worker
