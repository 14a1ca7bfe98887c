#include "controller/policy/stages/hold_back.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/policy/stages/preempt.h"
#include "controller/policy/stages/wait_reason.h"

namespace muster::controller {
namespace {

bool HeldByArray(Round& round, QueueWalk& walk, const Candidate& candidate) {
  const JobGroup& group = candidate.group;
  if (group.array_id == 0) return false;
  const uint32_t live =
      round.queue.LiveOfArray(group.array_id) + round.placed_of_array[group.array_id];
  if (live < group.at_a_time) return false;
  const std::string message =
      absl::StrCat("waits for others of array ", group.array_id, ": at most ", group.at_a_time,
                   " of it may run at a time");
  SetWaitReason(round, candidate.job, message);
  SetWaitReasonOfRest(round, candidate, message);
  walk.SkipGroup();
  return true;
}

bool HeldByQuota(Round& round, QueueWalk& walk, const Candidate& candidate) {
  const JobGroup& group = candidate.group;
  const Job& job = candidate.job;
  QuotaWalk& quotas = round.QuotasOf(group.project);
  const uint32_t slots = candidate.demand().min_slots();
  const QuotaWalk::Decision quota = quotas.Pass(job.id, group.owner, slots);
  if (!quota.held_back) return false;
  std::string message =
      quota.over.value_or(absl::StrCat("waits behind an earlier job of project ", group.project,
                                       " that is over quota, or that needs what is left of it"));
  if (quota.even_alone) message += ": it waits until the quota is raised";
  const bool may_preempt =
      quota.over.has_value() && !quota.even_alone && quota.is_first && !candidate.reserve_only;
  const bool preempts =
      may_preempt && PreemptOwnProject(round, candidate, quotas.CountOver(group.owner, slots));
  SetWaitReason(round, job,
                preempts ? absl::StrCat(message, PreemptedFor(round, job.id)) : message);
  SetWaitReasonOfRest(round, candidate, message);
  walk.SkipGroup();
  const bool all_wait = quotas.full_by() != 0 && !round.queue.AnyRecovering(group.project);
  if (!HasWaitReasonsLeft(round) && all_wait && !quota.even_alone) walk.SkipProject();
  return true;
}

void KeepQuota(Round& round, const Candidate& candidate, uint32_t slots) {
  round.QuotasOf(candidate.group.project).Reserve(candidate.group.owner, slots);
  round.decision.kept_quota[candidate.job.id] += slots;
}

// Of jobs that back off no more reserve slots than may run at once.
bool MayKeepSlots(Round& round, const Candidate& candidate) {
  const JobGroup& group = candidate.group;
  if (group.array_id != 0) {
    const uint32_t live = round.queue.LiveOfArray(group.array_id) +
                          round.placed_of_array[group.array_id] +
                          round.reserved_of_array[group.array_id];
    if (live >= group.at_a_time) return false;
  }
  return round.QuotasOf(group.project).MayReserve(group.owner, candidate.demand().min_slots());
}

// The largest number of ranks that both bounds leave room for, where the job holds `own` of the
// slots already.
uint32_t RanksLeft(const Project& project, const ProjectUse& use, const std::string& user,
                   const JobNeeds& needs, uint32_t own) {
  uint32_t ranks = needs.max_ranks;
  const auto cap = [&](const Quota& quota, const Use& taken) {
    if (!quota.slots.has_value()) return;
    const uint32_t others = taken.slots - std::min(taken.slots, own);
    const uint32_t room = *quota.slots - std::min(*quota.slots, others);
    ranks = std::min(ranks, room / needs.slots_per_rank);
  };
  cap(project.quota, use.all);
  cap(project.QuotaOf(user), use.Of(user));
  return ranks;
}

}  // namespace

bool HoldBack(Round& round, QueueWalk& walk, const Candidate& candidate) {
  if (candidate.group.recovering) {
    // What it holds counts already; it will need again what its dead ranks held.
    const uint32_t slots = candidate.demand().min_slots();
    const uint32_t held = UseOf(candidate.job).slots;
    if (slots > held) KeepQuota(round, candidate, slots - held);
    return false;
  }
  if (HeldByArray(round, walk, candidate) || HeldByQuota(round, walk, candidate)) return true;
  return candidate.reserve_only && !MayKeepSlots(round, candidate);
}

void CountReserved(Round& round, const Candidate& candidate, uint32_t slots) {
  const JobGroup& group = candidate.group;
  if (group.recovering) return;  // HoldBack counts them
  KeepQuota(round, candidate, slots);
  if (group.array_id != 0) ++round.reserved_of_array[group.array_id];
}

uint32_t RanksWithinQuotas(Round& round, const Candidate& candidate) {
  const JobNeeds& needs = candidate.needs();
  const std::string& name = candidate.group.project;
  const Project* project = round.snapshot.FindProject(name);
  if (project == nullptr || needs.min_ranks == needs.max_ranks) return needs.max_ranks;
  const uint32_t ranks = RanksLeft(*project, round.QuotasOf(name).with_reserved(),
                                   candidate.group.owner, needs, /*own=*/0);
  return std::max(ranks, needs.min_ranks);
}

uint32_t RanksWithinQuotasIfStopped(Round& round, const Job& job) {
  const JobNeeds& needs = job.settings->needs;
  const std::string& name = job.settings->project;
  const Project* project = round.snapshot.FindProject(name);
  if (project == nullptr) return needs.max_ranks;
  const QuotaWalk& quotas = round.QuotasOf(name);
  // What a quota leaves belongs to those whom it holds back.
  if (quotas.FullBy(job.owner) != 0) return static_cast<uint32_t>(job.current->ranks.size());
  return RanksLeft(*project, quotas.with_reserved(), job.owner, needs, UseOf(job).slots);
}

}  // namespace muster::controller
