// Looks at new versions and proposes who is asked about which checkpoint roots:
// policy/health/root_rules, and nothing more.
#pragma once

#include "controller/engine/snapshot_loop.h"

namespace muster::controller {

SnapshotLoop::Decision DecideRoots(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
