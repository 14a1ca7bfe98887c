#include "controller/policy/stages/wait_reason.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "controller/policy/checkpoints/root_rules.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/stages/preempt.h"

namespace muster::controller {
namespace {

constexpr int kMostNamed = 2;  // jobs for which slots are reserved, in one message

std::string UtcMinute(absl::Time time) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M", time, absl::UTCTimeZone()), " UTC");
}

// What of the reserved slots lies on eligible workers (null: on all).
uint32_t SlotsWithin(const ReservedSlots& reserved, const IdSet* eligible) {
  uint32_t slots = 0;
  for (const Grant& grant : reserved.grants) {
    if (eligible == nullptr || eligible->Has(grant.worker_id)) slots += grant.slots.size();
  }
  return slots;
}

bool IsExplained(const Round& round, const Candidate& candidate) {
  return !candidate.reserve_only && HasWaitReasonsLeft(round);
}

Capacity CapacityFor(const Round& round, const Candidate& candidate, const IdSet* eligible) {
  Capacity supply;
  for (int partition : candidate.partitions) {
    const WorkerIndex::Partition& there = round.index.partition(partition);
    // As people see them: what is reserved is free.
    for (const ReservedSlots& reserved : round.partitions[partition].reserved_slots)
      supply.free_slots += SlotsWithin(reserved, eligible);
    if (eligible == nullptr) {
      supply.free_slots += there.free_slots;
      supply.usable_slots += there.usable_slots;
      supply.ready_workers += there.ready_workers;
      continue;
    }
    there.workers.FindIf(eligible, [&](uint64_t id) {
      const WorkerIndex::Node& node = round.index.node(id);
      const WorkerIndex::Slots& slots = node.kinds[WorkerIndex::At(candidate.demand().kind())];
      supply.free_slots += node.takes_work ? slots.free.size() : 0;
      supply.usable_slots += node.usable ? slots.total : 0;
      supply.ready_workers += node.takes_work;
      return false;
    });
  }
  return supply;
}

// Of the free ones, those that the candidate may not have.
std::string WhoElseGets(const Round& round, const Candidate& candidate, const IdSet* eligible) {
  std::string text;
  int named = 0;
  for (int partition : candidate.partitions) {
    for (const ReservedSlots& reserved : round.partitions[partition].reserved_slots) {
      const uint32_t slots = SlotsWithin(reserved, eligible);
      if (slots == 0) continue;
      if (++named > kMostNamed) return absl::StrCat(text, " and more for others");
      absl::StrAppend(&text, named == 1 ? ", " : " and ", slots,
                      named == 1 ? " of them kept for job " : " for job ", reserved.for_job);
      if (reserved.until > round.context.wall)
        absl::StrAppend(&text, " until ", UtcMinute(reserved.until));
    }
  }
  return text;
}

// What keeps the candidate off workers that are there, each ended by "; ": a list shows no more
// than the first words, so that what somebody can mend comes before the count of slots. A worker
// that would make no difference comes behind: then the slots are what it waits for.
struct Obstacles {
  std::string first;
  std::string behind;
};
Obstacles FindObstacles(const Round& round, const Candidate& candidate, const Supply& supply) {
  const JobNeeds& needs = candidate.needs();
  Obstacles found;
  if (needs.commands && supply.all.usable_slots == 0) {
    found.first = needs.image == JobNeeds::Image::kNone
                      ? "only workers with --allow-commands run users' own code; "
                      : "only workers with --allow-commands and a container runtime run commands "
                        "in an image; ";
  }
  std::string unseen;
  const std::string unlooked = WhyDataUnseen(round.snapshot, needs, round.context.now);
  if (!unlooked.empty()) absl::StrAppend(&unseen, unlooked, "; ");
  const std::string no_root = WhyRootUnseen(round.snapshot, needs);
  if (!no_root.empty()) absl::StrAppend(&unseen, no_root, "; ");
  if (unseen.empty()) return found;
  const uint64_t wanted = uint64_t{std::max(needs.min_ranks, 1u)} * needs.slots_per_rank;
  const bool decides = supply.all.usable_slots < wanted ||
                       CapacityFor(round, candidate, /*eligible=*/nullptr).free_slots >= wanted;
  (decides ? found.first : found.behind) += unseen;
  return found;
}

// What stands behind "needs 2 GPUs: 1 of 8 free".
std::string Details(const Round& round, const Candidate& candidate, absl::string_view obstacles) {
  std::string text;
  for (const ReservedJob& reserved : round.decision.reserved) {
    if (reserved.job_id != candidate.job.id || reserved.start == absl::InfiniteFuture()) continue;
    absl::StrAppend(&text, "; enough should be free at ", UtcMinute(reserved.start));
  }
  if (absl::ConsumeSuffix(&obstacles, "; ")) absl::StrAppend(&text, "; ", obstacles);
  return absl::StrCat(text, PreemptedFor(round, candidate.job.id));
}

}  // namespace

bool HasWaitReasonsLeft(const Round& round) {
  return round.wait_reasons < round.settings.max_messages;
}

void SetWaitReason(Round& round, const Job& job, std::string message) {
  if (job.state != JobState::kPending || !HasWaitReasonsLeft(round)) return;
  ++round.wait_reasons;
  if (job.message == message) return;
  round.decision.plan.waiting.push_back({.job_id = job.id, .message = std::move(message)});
}

void SetWaitReasonOfRest(Round& round, const Candidate& candidate, const std::string& message) {
  const std::set<uint64_t>& jobs = candidate.group.jobs;
  for (auto id = jobs.upper_bound(candidate.job.id); id != jobs.end(); ++id) {
    if (!HasWaitReasonsLeft(round)) return;
    const Job& job = *round.snapshot.FindJob(*id);
    if (job.not_before_at <= round.context.now) SetWaitReason(round, job, message);
  }
}

Supply SupplyFor(const Round& round, const Candidate& candidate) {
  if (!IsExplained(round, candidate)) return {};
  const IdSet* eligible = candidate.demand().Eligible(round.index);
  return {.all = CapacityFor(round, candidate, eligible),
          .others = WhoElseGets(round, candidate, eligible)};
}

void ExplainWait(Round& round, const Candidate& candidate, const Supply& supply, bool for_group) {
  if (!IsExplained(round, candidate)) return;
  uint64_t reserved_for = 0;
  for (int partition : candidate.partitions) {
    if (reserved_for == 0) reserved_for = round.partitions[partition].reserved_for;
  }
  const std::string needs = DescribeNeeds(candidate.needs());
  const std::string lacks =
      absl::StrCat("needs ", needs, ": ", DescribeAvailable(supply.all), supply.others);
  const std::string follows =
      reserved_for == 0 ? lacks
                        : absl::StrCat("waits behind job ", reserved_for, "; needs ", needs);
  const bool is_behind = reserved_for != 0 && reserved_for != candidate.job.id;
  if (is_behind) {
    SetWaitReason(round, candidate.job, follows);
  } else {
    const Obstacles obstacles = FindObstacles(round, candidate, supply);
    SetWaitReason(
        round, candidate.job,
        absl::StrCat(obstacles.first, lacks, Details(round, candidate, obstacles.behind)));
  }
  if (for_group) SetWaitReasonOfRest(round, candidate, follows);
}

}  // namespace muster::controller
