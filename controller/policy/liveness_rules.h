// Who has been silent for too long. Pure: snapshot and time in, events out; the applier judges each
// again.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "controller/model/events.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

struct LivenessSettings {
  absl::Duration suspect_after;
  absl::Duration lost_after;
  absl::Duration startup_grace;
  absl::Duration start_timeout;
  absl::Duration started_at;  // since boot: when this controller started
};

// Workers that fell silent, gangs without a first step in time, and ranks without progress (the one
// that has been still for longest, one a job). Within the startup grace nobody is declared lost.
std::vector<Event> FindSilent(const Snapshot& snapshot, const LivenessSettings& settings,
                              absl::Duration now);

}  // namespace muster::controller
