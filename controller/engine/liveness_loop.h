// Looks at the clock a few times each heartbeat interval and posts who has been silent for too
// long.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "controller/model/events.h"
#include "controller/model/snapshot.h"
#include "controller/policy/liveness_rules.h"

namespace muster::controller {

class LivenessLoop {
 public:
  LivenessLoop(Clock& clock, LivenessSettings settings, absl::Duration every,
               std::function<std::shared_ptr<const Snapshot>()> snapshot,
               std::function<void(Event)> post)
      : clock_(clock),
        settings_(settings),
        every_(every),
        snapshot_(std::move(snapshot)),
        post_(std::move(post)) {}

  // Returns how long to wait for the next run.
  absl::Duration RunOnce() {
    for (Event& event : FindSilent(*snapshot_(), settings_, clock_.SinceBoot())) {
      post_(std::move(event));
    }
    return every_;
  }

 private:
  Clock& clock_;
  const LivenessSettings settings_;
  const absl::Duration every_;
  const std::function<std::shared_ptr<const Snapshot>()> snapshot_;
  const std::function<void(Event)> post_;
};

}  // namespace muster::controller
