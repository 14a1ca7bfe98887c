// Looks at each new version and proposes who starts next: policy/scheduler, and nothing more.
#pragma once

#include "common/base/clock.h"
#include "controller/engine/proposer.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

// For one Proposer: it follows the versions that it is shown.
Proposer::Propose ProposePlans(Clock& clock, ScheduleSettings settings);

}  // namespace muster::controller
