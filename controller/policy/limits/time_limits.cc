#include "controller/policy/limits/time_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/checkpoints/resume_rules.h"
#include "controller/policy/limits/dependencies.h"

namespace muster::controller {
absl::Duration PastRunTime(const Job& job) {
  absl::Duration sum;
  const auto add = [&](const Attempt& attempt) {
    if (attempt.number <= job.requeued_after || attempt.live()) return;
    sum += Lasted(attempt, absl::InfiniteFuture());
  };
  for (const auto& attempt : job.past) add(*attempt);
  if (job.current != nullptr) add(*job.current);
  return sum;
}

absl::Duration RunTime(const Job& job, absl::Time now) {
  const bool runs = job.has_live_attempt() && job.current->number > job.requeued_after;
  return PastRunTime(job) + (runs ? Lasted(*job.current, now) : absl::ZeroDuration());
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

std::optional<PassedLimit> EvaluateLimits(const Snapshot& snapshot, const Job& job,
                                          const Moment& moment) {
  const SchedulingSettings& limits = job.settings->scheduling;
  const bool waits = job.state == JobState::kPending || job.state == JobState::kSuspended;
  const bool runs = job.state == JobState::kStarting || job.state == JobState::kRunning;
  if (!waits && !runs) return std::nullopt;
  if (job.state == JobState::kPending && !limits.after.empty()) {
    DependencyStatus status = EvaluateDependencies(snapshot, job);
    if (status.state == DependencyOutlook::kNever) {
      return PassedLimit{.input = JobInput::kDependencyFailed,
                         .message = std::move(status.message)};
    }
  }
  if (job.state == JobState::kPending) {
    if (std::optional<std::string> why = WhyNothingToResume(snapshot, job); why.has_value()) {
      return PassedLimit{.input = JobInput::kNotRetryable, .message = *std::move(why)};
    }
  }
  if (limits.deadline <= moment.wall) {
    return PassedLimit{
        .input = waits ? JobInput::kDeadlinePassed : JobInput::kTimeLimit,
        .message = absl::StrCat("its deadline, ", Rfc3339Text(limits.deadline), ", has passed")};
  }
  if (job.state == JobState::kSuspended || limits.max_run_time == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  const absl::Duration ran = RunTime(job, snapshot.LedgerTime(moment.now));
  if (job.attempt == job.requeued_after || ran < limits.max_run_time) return std::nullopt;
  return PassedLimit{.input = JobInput::kTimeLimit,
                     .message = absl::StrCat("it ran ", HumanDuration(ran),
                                             ", as long as it may (scheduling.max_run_time: ",
                                             HumanDuration(limits.max_run_time), ")")};
}

std::vector<Finding> FindPassedLimits(const Snapshot& snapshot, const Moment& moment, size_t most) {
  std::vector<Finding> found;
  for (uint64_t id : *snapshot.active_jobs) {
    if (found.size() >= most) break;
    if (EvaluateLimits(snapshot, *snapshot.FindJob(id), moment).has_value()) {
      found.emplace_back(LimitPassed{.job_id = id});
    }
  }
  return found;
}

}  // namespace muster::controller
