#include "controller/policy/stages/backfill_kept.h"

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
  if (round.partitions[partition].kept.empty()) return false;
  if (round.backfill_tries >= round.settings.max_backfill_tries) return false;
  const auto [could, is_new] =
      round.could_backfill.try_emplace({&candidate.group, partition}, false);
  if (!is_new) return could->second;
  Demand& demand = candidate.demand();
  std::vector<const Kept*> lent;
  for (const Kept& kept : round.partitions[partition].kept) {
    if (kept.until > round.context.wall) lent.push_back(&kept);
  }
  for (const Kept* kept : lent) GiveBack(round.index, kept->kind, kept->grants);
  const std::vector<Grant> grants =
      FitGang(round.index, partition, demand, candidate.needs().min_ranks);
  GiveBack(round.index, demand.kind(), grants);
  for (const Kept* kept : lent) {
    for (const Grant& grant : kept->grants) round.index.Take(grant, kept->kind);
  }
  could->second = !grants.empty();
  return could->second;
}

std::vector<Grant> FitInKept(Round& round, const Candidate& candidate, int partition,
                             absl::Time end) {
  std::vector<Kept*> lent;
  for (Kept& kept : round.partitions[partition].kept) {
    if (kept.until >= end) lent.push_back(&kept);
  }
  if (lent.empty()) return {};
  ++round.backfill_tries;
  for (const Kept* kept : lent) GiveBack(round.index, kept->kind, kept->grants);
  std::vector<Grant> grants = Fit(round, candidate, partition, candidate.max_ranks);
  for (Kept* kept : lent) {
    for (Grant& grant : kept->grants) {
      grant = FreePartOf(round.index, kept->kind, grant);
      round.index.Take(grant, kept->kind);
    }
  }
  return grants;
}

}  // namespace muster::controller
