// Who tells the time. Pure code takes `now` as an argument; loops take a Clock&, so that tests can
// turn the hands.
#pragma once

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace muster {

class Clock {
 public:
  virtual ~Clock() = default;
  // Wall clock; it may jump. For display, for records, and for times that people name or are told:
  // begin times, deadlines, the ends of reservations.
  virtual absl::Time Now() = 0;
  // Time since boot, suspended time included: for every lease, timeout and rate. Never goes back.
  virtual absl::Duration SinceBoot() = 0;
};

// CLOCK_REALTIME and CLOCK_BOOTTIME. Thread-safe.
class RealClock final : public Clock {
 public:
  absl::Time Now() override;
  absl::Duration SinceBoot() override;
};

// Stands still until it is told to advance. Thread-safe.
class SimulatedClock final : public Clock {
 public:
  explicit SimulatedClock(absl::Time start = absl::FromUnixSeconds(1'700'000'000)) : now_(start) {}
  absl::Time Now() override;
  absl::Duration SinceBoot() override;
  void Advance(absl::Duration by);
  // Somebody sets the wall clock; the time since boot goes on.
  void JumpWall(absl::Duration by);

 private:
  Mutex mutex_;
  absl::Time now_ MUSTER_GUARDED_BY(mutex_);
  absl::Duration since_boot_ MUSTER_GUARDED_BY(mutex_) = absl::Hours(1);
};

}  // namespace muster
