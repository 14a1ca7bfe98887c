#include "common/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"

namespace muster {

absl::Time RealClock::Now() { return absl::Now(); }

absl::Duration RealClock::SinceBoot() {
  timespec ts{};
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return absl::DurationFromTimespec(ts);
}

absl::Time SimulatedClock::Now() {
  MutexLock lock(mutex_);
  return now_;
}

absl::Duration SimulatedClock::SinceBoot() {
  MutexLock lock(mutex_);
  return since_boot_;
}

void SimulatedClock::Advance(absl::Duration by) {
  MutexLock lock(mutex_);
  now_ += by;
  since_boot_ += by;
}

void SimulatedClock::JumpWall(absl::Duration by) {
  MutexLock lock(mutex_);
  now_ += by;
}

}  // namespace muster
