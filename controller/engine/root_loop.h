// Looks at new versions and proposes who is asked about which checkpoint roots:
// policy/health/root_rules, and nothing more.
#pragma once

#include "controller/engine/proposer.h"

namespace muster::controller {

Proposer::Proposal ProposeRoots(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
