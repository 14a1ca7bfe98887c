#include "controller/policy/scheduler.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/policy/capacity.h"

namespace muster::controller {
namespace {

using Line = std::pair<std::string, SlotKind>;  // pool and kind

std::vector<const Job*> QueueOrder(const Snapshot& snapshot) {
  std::vector<const Job*> queue;
  for (uint64_t id : *snapshot.active_jobs) {
    const Job* job = snapshot.FindJob(id);
    if (job->state == JobState::kPending || job->state == JobState::kRecovering) {
      queue.push_back(job);
    }
  }
  std::stable_sort(queue.begin(), queue.end(), [](const Job* a, const Job* b) {
    return a->settings->priority > b->settings->priority;
  });
  return queue;
}

std::string PlacementReason(const PlaceGang& gang, const JobNeeds& needs) {
  std::map<std::string, uint32_t> ranks;
  for (const RankPlacement& rank : gang.ranks) ++ranks[rank.worker];
  return absl::StrCat(gang.ranks.size(), gang.ranks.size() == 1 ? " rank" : " ranks", " (",
                      needs.min_ranks, " to ", needs.max_ranks, " wanted) on ",
                      absl::StrJoin(ranks, ", ", absl::PairFormatter(": ")));
}

void Say(Plan& plan, const Job& job, std::string message) {
  if (job.message != message) {
    plan.waiting.push_back({.job_id = job.id, .message = std::move(message)});
  }
}

}  // namespace

Plan Schedule(const Snapshot& snapshot, absl::Duration now) {
  Plan plan;
  TakenSlots taken;
  std::map<Line, uint64_t> held_up_by;  // the job at the head of each line that waits
  for (const Job* job : QueueOrder(snapshot)) {
    const JobNeeds& needs = job->settings->needs;
    const Line line{needs.pools.front().name, needs.slot_kind};
    const auto head = held_up_by.find(line);
    if (job->state == JobState::kRecovering) {
      held_up_by.emplace(line, job->id);
      continue;
    }
    if (head != held_up_by.end()) {
      Say(plan, *job,
          absl::StrCat("waits behind job ", head->second, "; needs ", DescribeNeeds(needs)));
      continue;
    }
    if (job->not_before_at > now) {
      held_up_by.emplace(line, job->id);  // its message says why it was restarted, and when
      continue;
    }
    const Capacity capacity = CountCapacity(snapshot, needs, taken);
    PlaceGang gang{.job_id = job->id, .attempt = job->attempt + 1, .ranks = {}, .reason = {}};
    gang.ranks = PlaceRanks(capacity, needs);
    if (gang.ranks.empty()) {
      if (capacity.usable_slots >= needs.min_ranks) held_up_by.emplace(line, job->id);
      Say(plan, *job,
          absl::StrCat("needs ", DescribeNeeds(needs), ": ", DescribeAvailable(capacity)));
      continue;
    }
    for (const RankPlacement& rank : gang.ranks) {
      taken[rank.worker].insert(rank.slots.begin(), rank.slots.end());
    }
    gang.reason = PlacementReason(gang, needs);
    plan.place.push_back(std::move(gang));
  }
  return plan;
}

absl::Duration NextBackoffEnd(const Snapshot& snapshot, absl::Duration now) {
  absl::Duration next = absl::InfiniteDuration();
  for (uint64_t id : *snapshot.active_jobs) {
    const Job* job = snapshot.FindJob(id);
    if (job->state == JobState::kPending && job->not_before_at > now) {
      next = std::min(next, job->not_before_at);
    }
  }
  return next;
}

}  // namespace muster::controller
