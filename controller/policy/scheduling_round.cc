#include "controller/policy/scheduling_round.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/limits/run_time.h"
#include "controller/policy/queue/admission.h"
#include "controller/policy/queue/queue_order.h"
#include "controller/policy/stages/admit.h"
#include "controller/policy/stages/backfill_reserved.h"
#include "controller/policy/stages/data_looks.h"
#include "controller/policy/stages/fit.h"
#include "controller/policy/stages/grow.h"
#include "controller/policy/stages/hold_back.h"
#include "controller/policy/stages/reserve.h"
#include "controller/policy/stages/wait_reason.h"

namespace muster::controller {
namespace {

// Delay before the round that continues one which reached max_considered.
constexpr absl::Duration kNextPart = absl::Seconds(1);

// Sets the wait reason of jobs that Admit blocks and whose message is out of date.
void ExplainBlocked(Round& round) {
  for (uint64_t id : round.queue.unexplained()) {
    if (round.decision.plan.waiting.size() >= round.settings.max_messages) return;
    const Job& job = *round.snapshot.FindJob(id);
    round.decision.plan.waiting.push_back(
        {.job_id = id, .message = Admit(round.snapshot, job, round.context).message});
  }
}

// Nothing is free, each partition is reserved, and enough wait reasons were given.
bool IsExhausted(const Round& round) {
  if (HasWaitReasonsLeft(round)) return false;
  for (size_t at = 0; at < round.partitions.size(); ++at) {
    const WorkerIndex::Partition& partition = round.index.partition(at);
    const PartitionState& state = round.partitions[at];
    const bool done = partition.free_slots == 0 && state.reserved_slots.empty();
    if (!done || (partition.usable_slots > 0 && state.reserved_for == 0)) return false;
  }
  return true;
}

// Where the candidate may go, and with how many ranks.
void Locate(Round& round, Candidate& candidate) {
  candidate.max_ranks = RanksWithinQuotas(round, candidate);
  candidate.partitions = round.PartitionsOf(candidate.job);
  candidate.failed_on = FailedOn(candidate.job);
}

bool StartInFreeSlots(Round& round, QueueWalk& walk, const Candidate& candidate) {
  const uint32_t most = candidate.reserve_only ? candidate.needs().min_ranks : candidate.max_ranks;
  return std::any_of(candidate.partitions.begin(), candidate.partitions.end(), [&](int partition) {
    return Start(round, walk, candidate, partition, Fit(round, candidate, partition, most));
  });
}

enum class Backfill { kStarts, kOthersCould, kNobodyCould };

// kOthersCould: not this job, but a shorter one of its group.
Backfill StartInReservedSlots(Round& round, QueueWalk& walk, const Candidate& candidate) {
  Backfill result = Backfill::kNobodyCould;
  if (candidate.reserve_only) return result;
  const absl::Time end = round.context.wall + ExpectedRunTimeLeft(round.snapshot, candidate.job);
  for (int partition : candidate.partitions) {
    if (!CouldBackfill(round, candidate, partition)) continue;
    std::vector<Grant> grants = FitInReserved(round, candidate, partition, end);
    if (Start(round, walk, candidate, partition, std::move(grants))) return Backfill::kStarts;
    result = Backfill::kOthersCould;
  }
  return result;
}

void Consider(Round& round, QueueWalk& walk, const QueueWalk::Step& step) {
  std::optional<Candidate> candidate = AdmitToRound(round, step.job_id, *step.group);
  if (!candidate.has_value() || HoldBack(round, walk, *candidate)) return;
  Locate(round, *candidate);
  if (StartInFreeSlots(round, walk, *candidate)) return;
  const Backfill backfill = StartInReservedSlots(round, walk, *candidate);
  if (backfill == Backfill::kStarts) return;
  LookFurther(round, *candidate);
  const Supply supply = SupplyFor(round, *candidate);
  ReserveSlots(round, *candidate);
  const bool skips_group = backfill == Backfill::kNobodyCould && !candidate->reserve_only;
  ExplainWait(round, *candidate, supply, skips_group);
  if (skips_group) walk.SkipGroup();
}

// Whether something is reserved for the job, which was considered and waits, or others may not slip
// past it.
bool IsHolder(Round& round, const QueueWalk::Step& step) {
  const uint64_t id = step.job_id;
  const JobGroup& group = *step.group;
  return round.decision.kept_quota.count(id) != 0 ||
         round.QuotasOf(group.project).FullBy(group.owner) == id ||
         std::any_of(
             round.partitions.begin(), round.partitions.end(), [id](const PartitionState& state) {
               return state.reserved_for == id ||
                      (!state.reserved_slots.empty() && state.reserved_slots.back().for_job == id);
             });
}

// Whether a round that goes on with a long queue passes over the job.
bool IsPassedOver(const Considered& considered, QueueWalk& walk, const QueueWalk::Step& step) {
  if (considered.holders.count(step.job_id) != 0) return false;
  const std::string& key = step.group->key;
  if (considered.groups.count(key) == 0) return considered.jobs.count(step.job_id) != 0;
  // One of its later jobs may be considered again.
  const bool has_holder = std::any_of(considered.holders.begin(), considered.holders.end(),
                                      [&](const auto& holder) { return holder.second == key; });
  if (!has_holder) walk.SkipGroup();
  return true;
}

// Until the queue is done, nothing can start any more, or the round reaches a bound. False: a bound
// ended it, and jobs may wait that it did not come to.
bool WalkQueue(Round& round, Considered& considered) {
  QueueWalk walk(round.queue, [&round](const std::string& project) {
    return StandingOf(project, round.snapshot, round.running, round.context);
  });
  for (uint32_t number_considered = 0;;) {
    if (number_considered >= round.settings.max_considered) {
      round.RunAgainIn(kNextPart);
      return false;
    }
    if (round.decision.plan.place.size() >= round.settings.max_placements) {
      round.decision.due_at = round.context.now;
      considered = {};
      return false;
    }
    const QueueWalk::Step step = IsExhausted(round) ? QueueWalk::Step() : walk.Next();
    if (step.group == nullptr) {
      considered = {};
      return true;
    }
    // The first max_considered/2 jobs are considered in every round, since slots are reserved for
    // them; then the round goes on with those that the rounds before it have not come to.
    const bool is_front = number_considered < round.settings.max_considered / 2;
    if (!is_front && IsPassedOver(considered, walk, step)) continue;
    ++number_considered;
    considered.jobs.insert(step.job_id);
    Consider(round, walk, step);
    if (walk.skips_group()) considered.groups.insert(step.group->key);
    considered.holders.erase(step.job_id);
    const bool has_room = considered.holders.size() < round.settings.max_considered / 4;
    if (!is_front && has_room && IsHolder(round, step)) {
      considered.holders.emplace(step.job_id, step.group->key);
    }
  }
}

}  // namespace

Decision RunRound(const RoundInput& input) {
  Round round(input);
  ExplainBlocked(round);
  // Slots are idle only when all who wait have been considered.
  if (WalkQueue(round, input.considered)) GrowElastic(round);
  ContinueLooks(round);
  round.GiveBackAll();
  return std::move(round.decision);
}

}  // namespace muster::controller
