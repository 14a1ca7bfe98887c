// Why a job waits: every blocker, who is ahead, and when it could start. Pure.
//
// The scheduler itself is asked: a job that it places has no blocker. Otherwise what is in the way
// is named by kind, in the order of the scheduler's checks (admission, array, quota, then room
// and order), each kind in a world in which the kinds before are out of the way. So when all that
// is named is lifted the scheduler places the job; a property test holds it.
#pragma once

#include <string>

#include "controller/model/snapshot.h"
#include "controller/model/types/explanation_types.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

// Requires that the job exists.
Explanation Explain(const Snapshot& snapshot, uint64_t job_id, const ScheduleContext& context);

// The same for a job that is not there yet, as if it were submitted now.
Explanation ExplainNew(const Snapshot& snapshot, const JobSettings& settings,
                       const std::string& owner, const ScheduleContext& context);

}  // namespace muster::controller
