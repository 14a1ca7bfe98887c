#include "controller/policy/dependencies.h"

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

using On = SchedulingSettings::On;

// How the jobs that one dependency names stand.
struct Standing {
  bool known = false;
  bool all_ended = true;
  uint64_t succeeded = 0;        // the first one; 0: none
  const Job* failed = nullptr;   // the first one that ended otherwise
  const Job* waiting = nullptr;  // the first one that has not ended
};

void Count(const Job& job, Standing& standing) {
  standing.known = true;
  if (!IsTerminal(job.state)) {
    standing.all_ended = false;
    if (standing.waiting == nullptr) standing.waiting = &job;
  } else if (job.state == JobState::kSucceeded) {
    if (standing.succeeded == 0) standing.succeeded = job.id;
  } else if (standing.failed == nullptr) {
    standing.failed = &job;
  }
}

Standing StandingOf(const Snapshot& snapshot, uint64_t id) {
  Standing standing;
  const Job* job = snapshot.FindJob(id);
  if (job == nullptr) return standing;
  Count(*job, standing);
  if (job->array.array_id != id) return standing;
  // The tasks of an array have the ids after its first one.
  for (uint64_t next = id + 1;; ++next) {
    const Job* task = snapshot.FindJob(next);
    if (task == nullptr || task->array.array_id != id) return standing;
    Count(*task, standing);
  }
}

const char* Wanted(On on) {
  switch (on) {
    case On::kSuccess:
      return "the success of job ";
    case On::kFailure:
      return "the failure of job ";
    case On::kEnd:
      return "the end of job ";
  }
  return "job ";
}

}  // namespace

DependencyVerdict JudgeDependency(const Snapshot& snapshot,
                                  const SchedulingSettings::Dependency& dependency) {
  const Standing standing = StandingOf(snapshot, dependency.job_id);
  const std::string wanted = absl::StrCat(Wanted(dependency.on), dependency.job_id);
  DependencyVerdict verdict{.state = DependencyOutlook::kWaiting,
                            .job_id = dependency.job_id,
                            .message = absl::StrCat("waits for ", wanted)};
  const auto never = [&](uint64_t id, absl::string_view state) {
    verdict.state = DependencyOutlook::kNever;
    verdict.job_id = id;
    verdict.message = absl::StrCat("job ", id, " is ", state, ", and this job waits for ", wanted);
  };
  if (!standing.known) {
    never(dependency.job_id, "unknown");
  } else if (dependency.on == On::kSuccess && standing.failed != nullptr) {
    never(standing.failed->id, JobStateName(standing.failed->state));
  } else if (!standing.all_ended) {
    verdict.job_id = standing.waiting->id;
    absl::StrAppend(&verdict.message, ", which is ", JobStateName(standing.waiting->state));
  } else if (dependency.on == On::kFailure && standing.failed == nullptr) {
    never(standing.succeeded, JobStateName(JobState::kSucceeded));
  } else {
    return {};
  }
  return verdict;
}

DependencyVerdict JudgeDependencies(const Snapshot& snapshot, const Job& job) {
  DependencyVerdict found;
  if (job.attempt > 0) return found;
  for (const SchedulingSettings::Dependency& dependency : job.settings->scheduling.after) {
    DependencyVerdict verdict = JudgeDependency(snapshot, dependency);
    if (verdict.state == DependencyOutlook::kNever) return verdict;
    if (found.state == DependencyOutlook::kMet) found = std::move(verdict);
  }
  return found;
}

}  // namespace muster::controller
