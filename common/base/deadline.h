// A moment at which a wait is over, however often somebody sets the wall clock meanwhile. For the
// waits of one process; a time that another one is told is an absl::Time. Thread-safe once made.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster {

class Deadline {
 public:
  // On the clock that counts suspended time, too (clock.h). Infinite: never.
  explicit Deadline(absl::Duration from_now) : at_(RealClock().SinceBoot() + from_now) {}

  // Zero once it is over.
  absl::Duration left() const {
    return std::max(at_ - RealClock().SinceBoot(), absl::ZeroDuration());
  }
  bool over() const { return left() == absl::ZeroDuration(); }

 private:
  absl::Duration at_;
};

}  // namespace muster
