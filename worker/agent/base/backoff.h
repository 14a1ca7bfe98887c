// How long to wait before the next try to reach the controller: doubles up to a cap, spread by
// jitter so that a thousand agents do not come back in the same millisecond. No I/O.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace muster::worker {

class Backoff {
 public:
  // `seed` differs between agents.
  Backoff(absl::Duration first, absl::Duration cap, uint64_t seed)
      : first_(first), cap_(cap), seed_(seed) {}

  // Between a half and the whole of the current step.
  absl::Duration Next();
  void Reset() { tries_ = 0; }

 private:
  const absl::Duration first_;
  const absl::Duration cap_;
  const uint64_t seed_;
  uint32_t tries_ = 0;
  uint64_t drawn_ = 0;
};

}  // namespace muster::worker
