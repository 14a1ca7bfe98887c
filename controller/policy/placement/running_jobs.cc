#include "controller/policy/placement/running_jobs.h"

#include "controller/model/ledger_rules.h"
#include "controller/policy/limits/fair_share.h"
#include "controller/policy/limits/run_time.h"

namespace muster::controller {
namespace {

absl::Time EndOf(const Snapshot& snapshot, const Job& job) {
  if (job.state == JobState::kRecovering || job.state == JobState::kStopping) {
    return absl::InfinitePast();
  }
  return HeldFrom(*job.current) + ExpectedRunTimeLeft(snapshot, job);
}

}  // namespace

void RunningJobs::Forget(uint64_t id, const Row& row) {
  if (row.end != absl::InfiniteFuture()) ends_.erase({row.end, id});
  elastic_.erase(id);
  if (row.preemptible && --priorities_[row.priority] == 0) priorities_.erase(row.priority);
  const auto project = starts_.find(row.project);
  const auto minute = project->second.find(row.started_minute);
  minute->second -= row.slots;
  if (minute->second == 0) project->second.erase(minute);
  if (project->second.empty()) starts_.erase(project);
  const auto key = by_run_time_key_.find(row.run_time_key);
  key->second.erase(id);
  if (key->second.empty()) by_run_time_key_.erase(key);
}

void RunningJobs::Put(const Snapshot& snapshot, uint64_t id, const Job* job) {
  if (const auto known = rows_.find(id); known != rows_.end()) {
    Forget(id, known->second);
    rows_.erase(known);
  }
  if (job == nullptr || !job->has_live_attempt()) return;
  Row row;
  row.project = job->settings->project;
  row.run_time_key = RunTimeKey(*job->settings);
  for (const Rank& rank : job->current->ranks) row.slots += rank.slots.size();
  row.started_minute = absl::ToUnixSeconds(HeldFrom(*job->current)) / 60;
  row.end = EndOf(snapshot, *job);
  if (row.end != absl::InfiniteFuture()) ends_.insert({row.end, id});
  row.preemptible = job->settings->scheduling.preemptible;
  row.priority = job->settings->priority;
  if (row.preemptible) ++priorities_[row.priority];
  if (job->settings->needs.max_ranks > job->settings->needs.min_ranks) elastic_.insert(id);
  starts_[row.project][row.started_minute] += row.slots;
  by_run_time_key_[row.run_time_key].insert(id);
  rows_.emplace(id, std::move(row));
}

void RunningJobs::RunTimesChanged(const Snapshot& snapshot, const std::string& run_time_key) {
  const auto key = by_run_time_key_.find(run_time_key);
  if (key == by_run_time_key_.end()) return;
  for (uint64_t id : key->second) {
    Row& row = rows_.at(id);
    const absl::Time end = EndOf(snapshot, *snapshot.FindJob(id));
    if (end == row.end) continue;
    if (row.end != absl::InfiniteFuture()) ends_.erase({row.end, id});
    if (end != absl::InfiniteFuture()) ends_.insert({end, id});
    row.end = end;
  }
}

double RunningJobs::DecayedAt(const std::string& project, absl::Time now,
                              absl::Duration half_life) const {
  const auto starts = starts_.find(project);
  if (starts == starts_.end()) return 0;
  double worth = 0;
  for (const auto& [minute, slots] : starts->second) {
    worth += HoldWorth(slots, absl::FromUnixSeconds(minute * 60), now, half_life);
  }
  return worth;
}

}  // namespace muster::controller
