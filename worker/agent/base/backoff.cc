#include "worker/agent/base/backoff.h"

#include <algorithm>

#include "common/base/rng.h"

namespace muster::worker {

absl::Duration Backoff::Next() {
  constexpr uint32_t kMostDoublings = 20;  // far past any cap, and no overflow
  const absl::Duration step = std::min(cap_, first_ * (1u << std::min(tries_, kMostDoublings)));
  ++tries_;
  const double unit = static_cast<double>(DeriveSeed(seed_, ++drawn_) >> 11) * 0x1.0p-53;
  return step * (0.5 + unit / 2);
}

}  // namespace muster::worker
