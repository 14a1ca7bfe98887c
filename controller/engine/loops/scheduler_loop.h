// Runs at each new version and proposes who starts next: policy/scheduler, and nothing more.
#pragma once

#include "common/base/clock.h"
#include "controller/engine/loops/version_loop.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

// For one VersionLoop: it follows the versions that it is shown.
VersionLoop::Decide DecidePlans(Clock& clock, ScheduleSettings settings);

}  // namespace muster::controller
