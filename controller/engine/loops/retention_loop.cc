#include "controller/engine/loops/retention_loop.h"

#include <utility>

#include "controller/policy/checkpoints/retention_rules.h"

namespace muster::controller {

VersionLoop::Decision DecideCheckpointWork(const Snapshot& snapshot, absl::Duration now) {
  VersionLoop::Decision proposal;
  proposal.due_at = NextRetentionRetry(snapshot, now);
  AssignCheckpointWork work = PlanRetention(snapshot, now);
  if (!work.actions.empty()) proposal.event = std::move(work);
  return proposal;
}

}  // namespace muster::controller
