#include "controller/engine/root_loop.h"

#include <utility>

#include "controller/policy/health/root_rules.h"

namespace muster::controller {

Proposer::Proposal ProposeRoots(const Snapshot& snapshot, absl::Duration now) {
  Proposer::Proposal proposal;
  RootPlan plan = PlanRoots(snapshot, now);
  proposal.due_at = plan.due_at;
  if (!plan.empty()) proposal.event = std::move(plan.event);
  return proposal;
}

}  // namespace muster::controller
