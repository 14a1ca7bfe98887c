#include "controller/engine/scheduler_loop.h"

#include <utility>

#include "controller/policy/scheduler.h"

namespace muster::controller {

Proposer::Proposal ProposePlan(const Snapshot& snapshot, absl::Duration now) {
  Proposer::Proposal proposal;
  proposal.due_at = NextBackoffEnd(snapshot, now);
  Plan plan = Schedule(snapshot, now);
  if (!plan.place.empty() || !plan.waiting.empty()) proposal.event = ApplyPlan{std::move(plan)};
  return proposal;
}

}  // namespace muster::controller
