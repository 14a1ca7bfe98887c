// Looks at the wall clock once a second and posts which jobs have passed their limits.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "controller/model/events.h"
#include "controller/model/snapshot.h"
#include "controller/policy/time_limits.h"

namespace muster::controller {

class LimitsLoop {
 public:
  LimitsLoop(Clock& clock, std::function<std::shared_ptr<const Snapshot>()> snapshot,
             std::function<void(Event)> post)
      : clock_(clock), snapshot_(std::move(snapshot)), post_(std::move(post)) {}

  // Returns how long to wait for the next run.
  absl::Duration RunOnce() {
    for (Event& event : FindPassedLimits(*snapshot_(), clock_.Now())) post_(std::move(event));
    return kEvery;
  }

 private:
  static constexpr absl::Duration kEvery = absl::Seconds(1);

  Clock& clock_;
  const std::function<std::shared_ptr<const Snapshot>()> snapshot_;
  const std::function<void(Event)> post_;
};

}  // namespace muster::controller
