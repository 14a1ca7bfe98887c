#include "controller/engine/loops/root_loop.h"

#include <utility>

#include "controller/policy/checkpoints/root_rules.h"

namespace muster::controller {

VersionLoop::Decision DecideRoots(const Snapshot& snapshot, absl::Duration now) {
  VersionLoop::Decision proposal;
  RootPlan plan = PlanRoots(snapshot, now);
  proposal.due_at = plan.due_at;
  if (!plan.empty()) proposal.event = std::move(plan.event);
  return proposal;
}

}  // namespace muster::controller
