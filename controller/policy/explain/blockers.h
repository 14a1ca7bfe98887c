// What keeps a job from the queue, whatever the slots, as blockers. Pure. Used by explain.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/explanation_types.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

// All that policy/queue/admission checks, one by one: held or suspended, a last attempt that
// is not gone, jobs that get its slots first, dependencies, begin, back-off. Of a job that waits.
std::vector<Blocker> AdmissionBlockers(const Snapshot& snapshot, const Job& job,
                                       const ScheduleContext& context);

std::string NameOf(const Job& job);     // "job 7 (digits)"
std::string TimeText(absl::Time time);  // "2026-01-31 12:00:00 UTC"

}  // namespace muster::controller
