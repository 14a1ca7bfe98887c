// Looks at each new version and proposes which checkpoints are reread or go:
// policy/health/retention_rules, and nothing more.
#pragma once

#include "controller/engine/snapshot_loop.h"

namespace muster::controller {

SnapshotLoop::Decision DecideCheckpointWork(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
