#include "controller/policy/archive/archivable_jobs.h"

#include <algorithm>

#include "controller/model/job_links.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

uint64_t FirstOf(const Snapshot& snapshot, uint64_t id) {
  const Job* job = snapshot.FindJob(id);
  return job == nullptr || job->array.array_id == 0 ? id : job->array.array_id;
}

bool HoldsSlots(const Attempt& attempt) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [](const Rank& rank) { return rank.holds_slots; });
}

bool IsOver(const Snapshot& snapshot, const Job& job) {
  if (!IsTerminal(job.state) || IsBegunFrom(snapshot, job.id)) return false;
  if (job.current != nullptr && (job.current->live() || HoldsSlots(*job.current))) return false;
  const bool held = std::any_of(job.past.begin(), job.past.end(),
                                [](const auto& attempt) { return HoldsSlots(*attempt); });
  const std::vector<uint64_t>& at_work = *snapshot.retention_jobs;
  return !held && !std::binary_search(at_work.begin(), at_work.end(), job.id);
}

}  // namespace

std::set<uint64_t> NeededYet(const Snapshot& snapshot, const std::set<uint64_t>& also) {
  std::set<uint64_t> needed;
  snapshot.outbox.ForEach([&](const OutboxRow& row) {
    if (row.fence.job_id != 0) needed.insert(FirstOf(snapshot, row.fence.job_id));
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(row.checkpoint_id);
    if (checkpoint != nullptr) needed.insert(FirstOf(snapshot, checkpoint->job_id));
  });
  const auto add_waited_for = [&](const Job& job) {
    if (IsTerminal(job.state)) return;
    for (const SchedulingSettings::Dependency& other : job.settings->scheduling.after) {
      needed.insert(FirstOf(snapshot, other.job_id));
    }
  };
  for (uint64_t id : *snapshot.dependent_jobs) add_waited_for(*snapshot.FindJob(id));
  for (uint64_t id : also) {
    const Job& job = *snapshot.FindJob(id);
    add_waited_for(job);
    needed.insert(FirstOf(snapshot, id));
    for (uint64_t source : SourcesOf(snapshot, job)) needed.insert(FirstOf(snapshot, source));
  }
  return needed;
}

std::optional<EndedJobs> EvaluateEnded(const Snapshot& snapshot, const std::set<uint64_t>& needed,
                                       uint64_t id) {
  const Job* job = snapshot.FindJob(id);
  if (job == nullptr || FirstOf(snapshot, id) != id || needed.count(id) != 0) return std::nullopt;
  EndedJobs ended{.first = id, .last = id, .finished = FinishedAt(*job)};
  for (const Job* next = job;;) {
    if (!IsOver(snapshot, *next)) return std::nullopt;
    ended.finished = std::max(ended.finished, FinishedAt(*next));
    next = job->array.array_id == 0 ? nullptr : snapshot.FindJob(ended.last + 1);
    if (next == nullptr || next->array.array_id != id) break;
    ++ended.last;
  }
  return ended;
}

}  // namespace muster::controller
