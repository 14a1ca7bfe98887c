// Runs every second and proposes which ended jobs are forgotten: policy/ended/ended_jobs_queue, and
// nothing more.
#pragma once

#include "controller/engine/snapshot_loop.h"
#include "controller/policy/ended/ended_job_rules.h"

namespace muster::controller {

// For one SnapshotLoop: it follows the versions that it is shown. `start`: when the controller
// began, since boot.
SnapshotLoop::Decide DecideForgetting(const ForgetSettings& settings, absl::Duration start);

}  // namespace muster::controller
