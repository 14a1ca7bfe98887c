#include "controller/policy/limits/run_time.h"

#include <algorithm>
#include <map>

#include "controller/model/ledger_rules.h"
#include "controller/model/pace_rules.h"

namespace muster::controller {
namespace {

// How late an end may be that the attempt's own progress foretold.
constexpr double kLateShare = 0.1;
constexpr absl::Duration kLeastLate = absl::Minutes(1);

// The step that the live attempt resumed from, or that the next one will resume from.
int64_t StandsAt(const Snapshot& snapshot, const Job& job) {
  if (job.has_live_attempt()) return job.current->first_step;
  int64_t step = 0;
  for (const uint64_t id : job.checkpoints) {
    const Checkpoint& row = *snapshot.FindCheckpoint(id);
    if (row.restorable()) step = std::max(step, row.step);
  }
  return step;
}

// The run time of the attempts that are over whose result is not lost: each counts up to its last
// checkpoint that the job has not fallen back behind. What is asked of the checkpoints' rows never
// changes once they are committed, so that a live attempt's answer does not change either.
absl::Duration KeptWork(const Snapshot& snapshot, const Job& job) {
  if (job.past.empty() && (job.current == nullptr || job.current->live())) return {};
  const int64_t step = StandsAt(snapshot, job);
  std::map<uint32_t, absl::Time> saved;  // by attempt; ledger time
  for (const uint64_t id : job.checkpoints) {
    const Checkpoint& row = *snapshot.FindCheckpoint(id);
    const bool counts = !row.path.empty() && row.step <= step && row.attempt > job.requeued_after;
    if (!counts) continue;
    const auto [it, fresh] = saved.emplace(row.attempt, CreatedAt(row));
    if (!fresh) it->second = std::max(it->second, CreatedAt(row));
  }
  absl::Duration kept;
  const auto add = [&](const Attempt& attempt) {
    const auto it = saved.find(attempt.number);
    if (it == saved.end() || attempt.live()) return;
    // What an older Muster noted are times of the wall clock, which may have been set in between.
    kept += std::clamp(it->second - HeldFrom(attempt), absl::ZeroDuration(),
                       Lasted(attempt, absl::InfiniteFuture()));
  };
  for (const auto& attempt : job.past) add(*attempt);
  if (job.current != nullptr) add(*job.current);
  return kept;
}

// What the attempts that are over leave of the most that the job may run.
absl::Duration LimitLeft(const Job& job) {
  const absl::Duration limit = job.settings->scheduling.max_run_time;
  if (limit == absl::InfiniteDuration()) return limit;
  return std::max(limit - PastRunTime(job), absl::ZeroDuration());
}

// What the live attempt takes from its start, by its own progress; infinite: unknown.
absl::Duration ForetoldRunTime(const Job& job) {
  if (!job.has_live_attempt()) return absl::InfiniteDuration();
  const absl::Time end = ForetoldEnd(job);
  if (end == absl::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(end - HeldFrom(*job.current), absl::ZeroDuration());
}

}  // namespace

RunTimeSource SourceOfRunTime(const Snapshot& snapshot, const JobSettings& settings) {
  const SchedulingSettings& scheduling = settings.scheduling;
  if (scheduling.expected_run_time > absl::ZeroDuration()) return RunTimeSource::kDeclared;
  if (snapshot.run_times.Find(RunTimeKey(settings)) != nullptr) return RunTimeSource::kLearned;
  return scheduling.max_run_time == absl::InfiniteDuration() ? RunTimeSource::kUnknown
                                                             : RunTimeSource::kLimit;
}

absl::Duration ExpectedRunTime(const Snapshot& snapshot, const JobSettings& settings) {
  const SchedulingSettings& scheduling = settings.scheduling;
  switch (SourceOfRunTime(snapshot, settings)) {
    case RunTimeSource::kDeclared:
      return std::min(scheduling.expected_run_time, scheduling.max_run_time);
    case RunTimeSource::kLearned:
      return std::min(snapshot.run_times.Find(RunTimeKey(settings))->Longest(),
                      scheduling.max_run_time);
    case RunTimeSource::kLimit:
    case RunTimeSource::kUnknown:
    case RunTimeSource::kProgress:
      break;
  }
  return scheduling.max_run_time;
}

absl::Duration ExpectedRunTimeLeft(const Snapshot& snapshot, const Job& job) {
  const absl::Duration most = LimitLeft(job);
  const absl::Duration foretold = ForetoldRunTime(job);
  if (foretold != absl::InfiniteDuration()) return std::min(foretold, most);
  const absl::Duration whole = ExpectedRunTime(snapshot, *job.settings);
  if (whole == absl::InfiniteDuration()) return most;
  const absl::Duration kept = KeptWork(snapshot, job);
  if (kept >= whole) return most;  // the expectation was wrong
  return std::min(std::max(whole - kept, whole / 10), most);
}

RunTimeSource SourceOfRunTimeLeft(const Snapshot& snapshot, const Job& job) {
  const absl::Duration foretold = ForetoldRunTime(job);
  if (foretold == absl::InfiniteDuration()) return SourceOfRunTime(snapshot, *job.settings);
  return foretold <= LimitLeft(job) ? RunTimeSource::kProgress : RunTimeSource::kLimit;
}

absl::Time ExpectedEnd(const Snapshot& snapshot, const Job& job, const Moment& moment) {
  if (job.state == JobState::kRecovering || job.state == JobState::kStopping) return moment.wall;
  const absl::Duration ran = Lasted(*job.current, snapshot.LedgerTime(moment.now));
  const auto at = [&](absl::Duration run_time) {
    if (run_time == absl::InfiniteDuration()) return absl::InfiniteFuture();
    return moment.wall + std::max(run_time - ran, absl::ZeroDuration());
  };
  const absl::Duration run_time = ExpectedRunTimeLeft(snapshot, job);
  if (run_time > ran) return at(run_time);
  const absl::Duration limit = LimitLeft(job);
  if (ForetoldRunTime(job) == absl::InfiniteDuration()) return at(limit);
  const absl::Duration late = run_time + std::max(kLeastLate, run_time * kLateShare);
  return at(late > ran ? std::min(late, limit) : limit);
}

}  // namespace muster::controller
