// Runs when roots in use or connections change, and while a root in use has no identity; proposes
// which workers are asked about which roots: policy/checkpoints/root_rules, and nothing more.
#pragma once

#include "controller/engine/loops/version_loop.h"

namespace muster::controller {

VersionLoop::Decision DecideRoots(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
