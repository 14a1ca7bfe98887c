// The samples of a split in the order in which they lie in their files, for orders of training that
// read neighbours together. Pure; any thread may ask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/index/sample_index.h"

namespace muster::worker {

class StorageOrder {
 public:
  // Reads the whole index, and takes 4 bytes a sample where ids are in another order. UNIMPLEMENTED
  // for more than 2^32 samples, DATA_LOSS when the index is broken.
  static absl::StatusOr<StorageOrder> Of(const SampleIndex& index);

  // Requires place < the index's size.
  uint64_t IdAt(uint64_t place) const { return ids_.empty() ? place : ids_[place]; }
  // Tells this order from others of the same samples; empty: each is its place.
  std::string fingerprint() const;
  int64_t bytes() const { return static_cast<int64_t>(ids_.size() * sizeof(uint32_t)); }

 private:
  std::vector<uint32_t> ids_;  // empty: each is its place
};

}  // namespace muster::worker
