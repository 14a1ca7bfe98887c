// What a part of the agent needs of the loop when it only waits: timers and the clock. The event
// loop in the agent, virtual time in muster_sim.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster::worker {

class Timers {
 public:
  using TimerId = uint64_t;

  virtual ~Timers() = default;
  // Calls `task` once, after `delay`. Cancelling a timer that ran or never was is harmless.
  virtual TimerId After(absl::Duration delay, std::function<void()> task) = 0;
  virtual void Cancel(TimerId id) = 0;
  virtual Clock& clock() const = 0;
};

}  // namespace muster::worker
