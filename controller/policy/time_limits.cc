#include "controller/policy/time_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"
#include "controller/policy/dependencies.h"
#include "controller/policy/resume_rules.h"

namespace muster::controller {
namespace {

absl::Duration Lasted(const Attempt& attempt, absl::Time now) {
  return std::max(std::min(attempt.ended, now) - attempt.started, absl::ZeroDuration());
}

}  // namespace

absl::Duration RunTime(const Job& job, absl::Time now) {
  absl::Duration sum;
  for (const auto& attempt : job.past) {
    if (attempt->number > job.requeued_after) sum += Lasted(*attempt, now);
  }
  if (job.current != nullptr && job.current->number > job.requeued_after) {
    sum += Lasted(*job.current, now);
  }
  return sum;
}

absl::Status CanKeepTimes(const SchedulingSettings& scheduling, absl::Time now) {
  if (scheduling.deadline <= now) {
    return absl::FailedPreconditionError(
        absl::StrCat("refused: its deadline, ", Rfc3339Text(scheduling.deadline), ", has passed"));
  }
  if (scheduling.deadline <= scheduling.begin) {
    return absl::FailedPreconditionError(
        absl::StrCat("refused: it may begin at ", Rfc3339Text(scheduling.begin),
                     " and must have ended by ", Rfc3339Text(scheduling.deadline)));
  }
  return absl::OkStatus();
}

std::optional<PassedLimit> JudgeLimits(const Snapshot& snapshot, const Job& job, absl::Time now) {
  const SchedulingSettings& limits = job.settings->scheduling;
  const bool waits = job.state == JobState::kPending || job.state == JobState::kSuspended;
  const bool runs = job.state == JobState::kStarting || job.state == JobState::kRunning;
  if (!waits && !runs) return std::nullopt;
  if (job.state == JobState::kPending && !limits.after.empty()) {
    DependencyVerdict verdict = JudgeDependencies(snapshot, job);
    if (verdict.state == DependencyOutlook::kNever) {
      return PassedLimit{.input = JobInput::kDependencyFailed,
                         .message = std::move(verdict.message)};
    }
  }
  if (job.state == JobState::kPending) {
    if (std::optional<std::string> why = WhyNothingToResume(snapshot, job); why.has_value()) {
      return PassedLimit{.input = JobInput::kNotRetryable, .message = *std::move(why)};
    }
  }
  if (limits.deadline <= now) {
    return PassedLimit{
        .input = waits ? JobInput::kDeadlinePassed : JobInput::kTimeLimit,
        .message = absl::StrCat("its deadline, ", Rfc3339Text(limits.deadline), ", has passed")};
  }
  if (job.state == JobState::kSuspended || limits.max_run_time == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  const absl::Duration ran = RunTime(job, now);
  if (job.attempt == job.requeued_after || ran < limits.max_run_time) return std::nullopt;
  return PassedLimit{.input = JobInput::kTimeLimit,
                     .message = absl::StrCat("it ran ", HumanDuration(ran),
                                             ", as long as it may (scheduling.max_run_time: ",
                                             HumanDuration(limits.max_run_time), ")")};
}

std::vector<Event> FindPassedLimits(const Snapshot& snapshot, absl::Time now) {
  std::vector<Event> events;
  for (uint64_t id : *snapshot.active_jobs) {
    if (JudgeLimits(snapshot, *snapshot.FindJob(id), now).has_value()) {
      events.push_back(LimitPassed{.job_id = id});
    }
  }
  return events;
}

}  // namespace muster::controller
