#include "controller/engine/retention_loop.h"

#include <utility>

#include "controller/policy/health/retention_rules.h"

namespace muster::controller {

Proposer::Proposal ProposeCare(const Snapshot& snapshot, absl::Duration now) {
  Proposer::Proposal proposal;
  proposal.due_at = NextRetentionRetry(snapshot, now);
  CareForCheckpoints care = PlanRetention(snapshot, now);
  if (!care.actions.empty()) proposal.event = std::move(care);
  return proposal;
}

}  // namespace muster::controller
