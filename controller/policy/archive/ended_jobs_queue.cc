#include "controller/policy/archive/ended_jobs_queue.h"

#include <algorithm>
#include <optional>

#include "controller/model/job_links.h"
#include "controller/model/ledger_rules.h"
#include "controller/model/types/events.h"

namespace muster::controller {
namespace {

bool IsListed(const Job* job) {
  if (job == nullptr || !IsTerminal(job->state)) return false;
  return job->array.array_id == 0 || job->array.array_id == job->id;
}

}  // namespace

void EndedJobsQueue::Follow(const Snapshot& snapshot) {
  snapshot.jobs.ForEachChange(jobs_, [&](uint64_t id, const Job* before, const Job* now) {
    if (IsListed(before)) ended_.erase({FinishedAt(*before), id});
    if (IsListed(now)) ended_.insert({FinishedAt(*now), id});
    if (now == nullptr) TakeBackSourcesOf(snapshot, *before);
  });
  jobs_ = snapshot.jobs;
}

// What it began from had to stay for it, and may be next: a chain of jobs, each of which began from
// the one before, goes one after the other.
void EndedJobsQueue::TakeBackSourcesOf(const Snapshot& snapshot, const Job& archived) {
  for (uint64_t source : SourcesOf(snapshot, archived)) {
    const Job* job = snapshot.FindJob(source);
    if (job->array.array_id != 0) job = snapshot.FindJob(job->array.array_id);
    if (IsListed(job)) ended_.insert({FinishedAt(*job), job->id});
  }
}

void EndedJobsQueue::TakeBack(const Snapshot& snapshot, absl::Duration now) {
  while (!stayed_.empty() && stayed_.front().first <= now) {
    const uint64_t id = stayed_.front().second;
    stayed_.pop_front();
    staying_.erase(id);
    const Job* job = snapshot.FindJob(id);
    if (IsListed(job)) ended_.insert({FinishedAt(*job), id});
  }
}

void EndedJobsQueue::Leave(uint64_t id, absl::Duration now) {
  if (staying_.insert(id).second) stayed_.emplace_back(now + kAgainAfter, id);
}

std::vector<EndedJobs> EndedJobsQueue::Next(const Snapshot& snapshot,
                                            const ArchiveSettings& settings, absl::Duration now) {
  Follow(snapshot);
  TakeBack(snapshot, now);
  if (now - start_ < settings.least_kept) return {};
  const absl::Time horizon = snapshot.LedgerTime(now) - settings.forget_after;
  const absl::Time old_enough = snapshot.LedgerTime(now) - settings.least_kept_beyond_recent;
  const uint64_t ended = snapshot.jobs.size() - snapshot.active_jobs->size();
  uint64_t excess = ended > settings.recent ? ended - settings.recent : 0;
  // Whether what ended then is to go, as far as time and number say.
  const auto is_due = [&](absl::Time finished) {
    return finished <= horizon || (excess > 0 && finished <= old_enough);
  };
  std::vector<EndedJobs> next;
  const bool any_due = !ended_.empty() && is_due(ended_.begin()->first);
  if (!any_due) return next;
  const std::set<uint64_t> needed = NeededYet(snapshot);
  uint64_t taken = 0;
  size_t evaluated = 0;
  for (auto it = ended_.begin(); it != ended_.end();) {
    if (taken >= ArchiveJobs::kMost || evaluated++ == kMostEvaluated) break;
    if (!is_due(it->first)) break;
    const std::optional<EndedJobs> jobs = EvaluateEnded(snapshot, needed, it->second);
    // `ended_` sorts an array by the end of its first task. While there are too many jobs, one with
    // a later task that ended within the hour stays here, since it may go soon; Leave would set it
    // aside for a whole hour more.
    if (excess > 0 && jobs.has_value() && !is_due(jobs->finished)) {
      ++it;
      continue;
    }
    if (!jobs.has_value() || !is_due(jobs->finished)) {
      Leave(it->second, now);
      it = ended_.erase(it);
      continue;
    }
    next.push_back(*jobs);
    taken += jobs->size();
    excess -= std::min(excess, jobs->size());
    ++it;
  }
  return next;
}

}  // namespace muster::controller
