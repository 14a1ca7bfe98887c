#include "controller/policy/stages/round.h"

#include <algorithm>

#include "controller/policy/limits/run_time.h"
#include "controller/policy/placement/placement.h"

namespace muster::controller {

void Round::RunAgainIn(absl::Duration wait) {
  if (wait > absl::ZeroDuration()) decision.due_at = std::min(decision.due_at, context.now + wait);
}

QuotaWalk& Round::QuotasOf(const std::string& project) {
  return quotas.try_emplace(project, snapshot, project).first->second;
}

std::vector<int> Round::PartitionsOf(const Job& job) const {
  const JobNeeds& needs = job.settings->needs;
  std::vector<int> found;
  for (const JobNeeds::Pool& pool : needs.pools) {
    if (!IsOpenTo(job, pool, LedgerNow())) continue;
    const int partition = index.FindPartition(pool.name, needs.slot_kind);
    if (partition >= 0) found.push_back(partition);
  }
  return found;
}

void Round::GiveBackAll() {
  for (const PartitionState& partition : partitions) {
    for (const ReservedSlots& reserved : partition.reserved_slots)
      GiveBack(index, reserved.kind, reserved.grants);
  }
  for (auto it = taken.rbegin(); it != taken.rend(); ++it) index.Give(it->second, it->first);
}

}  // namespace muster::controller
