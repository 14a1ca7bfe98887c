// Samples whose bytes cannot be decoded, which others stand in for: each is told once, and only so
// many may be broken. What cannot be read is none of them: it may be whole for another rank. Which
// sample stands in is the loader's to say: the next whole one, by number.
//
// Shared by the threads that make a rank's batches. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "worker/data/base/sample_source.h"

namespace muster::worker {

// Whether this says that a sample's bytes cannot be decoded: not that they could not be read.
inline bool IsFaultOfSample(const absl::Status& why) {
  return absl::IsInvalidArgument(why) || absl::IsUnimplemented(why) ||
         absl::IsResourceExhausted(why);
}

class BrokenSamples {
 public:
  explicit BrokenSamples(uint64_t limit) : limit_(limit) {}

  // Whether it was added: then there is no need to look at it again.
  bool Has(Split split, int64_t id) const;

  // Of a sample whose bytes, as `why` says, cannot be decoded. OK when another may stand in for it;
  // else the error that ends the run: there are too many.
  absl::Status Add(Split split, int64_t id, const std::string& name, const absl::Status& why);

  uint64_t count() const;

 private:
  const uint64_t limit_;
  std::atomic<bool> any_ = false;  // mostly there is none, and nothing to lock for
  mutable Mutex mutex_;
  std::set<std::pair<Split, int64_t>> samples_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::worker
