// Runs at each new version in which jobs have checkpoints to reread or delete, and proposes which
// of them are: policy/checkpoints/retention_rules, and nothing more.
#pragma once

#include "controller/engine/loops/version_loop.h"

namespace muster::controller {

VersionLoop::Decision DecideCheckpointWork(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
