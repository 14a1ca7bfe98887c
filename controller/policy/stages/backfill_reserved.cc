#include "controller/policy/stages/backfill_reserved.h"

#include <algorithm>

#include "controller/policy/placement/placement.h"
#include "controller/policy/stages/fit.h"

namespace muster::controller {

Grant FreePartOf(const WorkerIndex& index, SlotKind kind, const Grant& grant) {
  const WorkerIndex::Node& node = index.node(grant.worker_id);
  const std::vector<uint32_t>& free = node.kinds[WorkerIndex::At(kind)].free;
  Grant part{.worker_id = grant.worker_id,
             .slots = {},
             .cpus = std::min(grant.cpus, node.free_cpus),
             .memory_bytes = std::min(grant.memory_bytes, node.free_memory)};
  for (uint32_t slot : grant.slots) {
    if (std::binary_search(free.rbegin(), free.rend(), slot)) part.slots.push_back(slot);
  }
  return part;
}

bool CouldBackfill(Round& round, const Candidate& candidate, int partition) {
  if (round.partitions[partition].reserved_slots.empty()) return false;
  if (round.backfill_tries >= round.settings.max_backfill_tries) return false;
  const auto [could, is_new] =
      round.could_backfill.try_emplace({&candidate.group, partition}, false);
  if (!is_new) return could->second;
  Demand& demand = candidate.demand();
  std::vector<const ReservedSlots*> lent;
  for (const ReservedSlots& reserved : round.partitions[partition].reserved_slots) {
    if (reserved.until > round.context.wall) lent.push_back(&reserved);
  }
  for (const ReservedSlots* reserved : lent)
    GiveBack(round.index, reserved->kind, reserved->grants);
  const std::vector<Grant> grants =
      FitGang(round.index, partition, demand, candidate.needs().min_ranks);
  GiveBack(round.index, demand.kind(), grants);
  for (const ReservedSlots* reserved : lent) {
    for (const Grant& grant : reserved->grants) round.index.Take(grant, reserved->kind);
  }
  could->second = !grants.empty();
  return could->second;
}

std::vector<Grant> FitInReserved(Round& round, const Candidate& candidate, int partition,
                                 absl::Time end) {
  std::vector<ReservedSlots*> lent;
  for (ReservedSlots& reserved : round.partitions[partition].reserved_slots) {
    if (reserved.until >= end) lent.push_back(&reserved);
  }
  if (lent.empty()) return {};
  ++round.backfill_tries;
  for (const ReservedSlots* reserved : lent)
    GiveBack(round.index, reserved->kind, reserved->grants);
  std::vector<Grant> grants = Fit(round, candidate, partition, candidate.max_ranks);
  for (ReservedSlots* reserved : lent) {
    for (Grant& grant : reserved->grants) {
      grant = FreePartOf(round.index, reserved->kind, grant);
      round.index.Take(grant, reserved->kind);
    }
  }
  return grants;
}

}  // namespace muster::controller
