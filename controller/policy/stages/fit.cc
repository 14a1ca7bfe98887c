#include "controller/policy/stages/fit.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/policy/placement/placement.h"
#include "controller/policy/stages/data_looks.h"
#include "controller/policy/stages/hold_back.h"

namespace muster::controller {
namespace {

std::string PlacementReason(const Round& round, const PlaceGang& gang, const JobNeeds& needs,
                            int partition) {
  std::map<std::string, uint32_t> ranks;
  for (const RankPlacement& rank : gang.ranks) ++ranks[rank.worker];
  std::string reason = absl::StrCat(gang.ranks.size(), gang.ranks.size() == 1 ? " rank" : " ranks",
                                    " (", needs.min_ranks, " to ", needs.max_ranks, " wanted) on ",
                                    absl::StrJoin(ranks, ", ", absl::PairFormatter(": ")));
  const std::string& pool = round.index.partition(partition).pool;
  if (pool != needs.pools.front().name) absl::StrAppend(&reason, " of pool ", pool);
  const uint64_t reserved_for = round.partitions[partition].reserved_for;
  if (reserved_for != 0) {
    absl::StrAppend(&reason, ", before job ", reserved_for, ", which it does not hold up");
  }
  return reason;
}

// The free slots of the partition's workers on which the job failed, taken out of the index.
std::vector<Grant> TakeAvoided(Round& round, const Candidate& candidate, int partition) {
  const SlotKind kind = candidate.demand().kind();
  std::vector<Grant> avoided;
  for (const std::string& name : candidate.failed_on) {
    const Worker* worker = round.snapshot.FindWorker(name);
    if (worker == nullptr) continue;
    const WorkerIndex::Slots& slots = round.index.node(worker->id).kinds[WorkerIndex::At(kind)];
    if (slots.partition != partition || slots.free.empty()) continue;
    avoided.push_back({.worker_id = worker->id, .slots = {slots.free.rbegin(), slots.free.rend()}});
    round.index.Take(avoided.back(), kind);
  }
  return avoided;
}

void KeepForSoon(Round& round, const Candidate& candidate, int partition,
                 std::vector<Grant> grants) {
  const Job& job = candidate.job;
  const bool recovers = job.state == JobState::kRecovering;
  CountReserved(round, candidate, SlotsOf(grants));
  const absl::Duration wait =
      recovers ? absl::ZeroDuration()
               : std::max(job.not_before_at - round.context.now, absl::ZeroDuration());
  round.partitions[partition].reserved_slots.push_back({.for_job = job.id,
                                                        .until = round.context.wall + wait,
                                                        .kind = candidate.demand().kind(),
                                                        .grants = std::move(grants)});
}

}  // namespace

uint32_t SlotsOf(const std::vector<Grant>& grants) {
  uint32_t slots = 0;
  for (const Grant& grant : grants) slots += grant.slots.size();
  return slots;
}

std::vector<Grant> Fit(Round& round, const Candidate& candidate, int partition,
                       uint32_t max_ranks) {
  Demand& demand = candidate.demand();
  std::vector<Grant> anywhere = FitGang(round.index, partition, demand, max_ranks);
  if (anywhere.empty() || candidate.failed_on.empty()) return anywhere;
  GiveBack(round.index, demand.kind(), anywhere);
  const std::vector<Grant> avoided = TakeAvoided(round, candidate, partition);
  std::vector<Grant> elsewhere = FitGang(round.index, partition, demand, max_ranks);
  GiveBack(round.index, demand.kind(), avoided);
  if (SlotsOf(elsewhere) >= SlotsOf(anywhere)) return elsewhere;
  GiveBack(round.index, demand.kind(), elsewhere);
  for (const Grant& grant : anywhere) round.index.Take(grant, demand.kind());
  return anywhere;
}

bool Start(Round& round, QueueWalk& walk, const Candidate& candidate, int partition,
           std::vector<Grant> grants) {
  if (grants.empty()) return false;
  if (candidate.reserve_only) {
    KeepForSoon(round, candidate, partition, std::move(grants));
    return true;
  }
  if (AwaitsDataLooks(round, candidate.job, grants)) {
    KeepForSoon(round, candidate, partition, std::move(grants));
    return true;
  }
  const JobGroup& group = candidate.group;
  const JobNeeds& needs = candidate.needs();
  const uint32_t slots = SlotsOf(grants);
  walk.Placed(slots);
  round.QuotasOf(group.project).Take(group.owner, slots);
  if (group.array_id != 0) ++round.placed_of_array[group.array_id];
  for (const Grant& grant : grants) round.taken.emplace_back(needs.slot_kind, grant);
  PlaceGang gang{.job_id = candidate.job.id,
                 .attempt = candidate.job.attempt + 1,
                 .ranks = RanksOf(round.index, needs, std::move(grants)),
                 .reason = {}};
  gang.reason = PlacementReason(round, gang, needs, partition);
  round.decision.plan.place.push_back(std::move(gang));
  return true;
}

}  // namespace muster::controller
