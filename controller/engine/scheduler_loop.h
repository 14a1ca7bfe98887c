// Looks at each new version and proposes who starts next: policy/scheduler, and nothing more.
#pragma once

#include "controller/engine/proposer.h"

namespace muster::controller {

Proposer::Proposal ProposePlan(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
