// Looks at each new version and proposes which checkpoints are reread or go:
// policy/health/retention_rules, and nothing more.
#pragma once

#include "controller/engine/proposer.h"

namespace muster::controller {

Proposer::Proposal ProposeCare(const Snapshot& snapshot, absl::Duration now);

}  // namespace muster::controller
