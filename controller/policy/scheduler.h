// Who starts next: a strict first-in, first-out queue of whole gangs. Pure: snapshot in, plan out.
//
// Order: higher priority first, then the earlier submit. A gang gets all its ranks or none, as many
// between min and max as fit, on the fewest workers. The first job of a line (pool and kind of
// slot) that does not fit holds up the later ones of that line, so that nobody starves; a job that
// the workers present could not hold even when idle holds up no one. A job that is recovering or
// waits for its back-off keeps its place in the line. Cost: active jobs times workers.
#pragma once

#include "absl/time/time.h"
#include "controller/model/plan.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// `now` is the time since boot, for the back-off of restarted jobs.
Plan Schedule(const Snapshot& snapshot, absl::Duration now);

// When a job's back-off ends next, as a time since boot; infinite when none runs.
absl::Duration NextBackoffEnd(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
