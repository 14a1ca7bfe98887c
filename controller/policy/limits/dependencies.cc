#include "controller/policy/limits/dependencies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

using On = SchedulingSettings::On;

// The job, the first of the array, or the task that is meant; null: there is none. The tasks of an
// array have the ids after its first one.
const Job* FindMeant(const Snapshot& snapshot, const SchedulingSettings::Dependency& dependency) {
  const Job* first = snapshot.FindJob(dependency.job_id);
  if (first == nullptr || !dependency.task.has_value()) return first;
  if (first->array.array_id != first->id || *dependency.task < first->array.index) return nullptr;
  const Job* task = snapshot.FindJob(first->id + (*dependency.task - first->array.index));
  return task != nullptr && task->array.array_id == first->id ? task : nullptr;
}

// How the jobs that one dependency names stand.
ArrayTally TallyOf(const Snapshot& snapshot, const Job& first, bool whole_array) {
  ArrayTally tally;
  const auto count = [&tally](const Job& job) {
    if (!IsTerminal(job.state)) {
      ++tally.open;
    } else if (job.state == JobState::kSucceeded) {
      if (++tally.succeeded == 1) tally.first_succeeded = job.id;
    } else if (++tally.failed == 1) {
      tally.first_failed = job.id;
    }
  };
  if (!whole_array) {
    count(first);
    return tally;
  }
  const ArrayTally* known = snapshot.arrays.Find(ArrayKey(first.id));
  const Job* failed = known == nullptr ? nullptr : snapshot.FindJob(known->first_failed);
  const bool stands = failed == nullptr || IsTerminal(failed->state);
  if (known != nullptr && stands) return *known;
  // Within the batch that makes the array, or starts its task again. The tasks have the ids after
  // the first one.
  for (uint64_t id = first.id;; ++id) {
    const Job* task = snapshot.FindJob(id);
    if (task == nullptr || task->array.array_id != first.id) return tally;
    count(*task);
  }
}

const char* Wanted(On on) {
  switch (on) {
    case On::kSuccess:
      return "the success of ";
    case On::kFailure:
      return "the failure of ";
    case On::kEnd:
      return "the end of ";
  }
  return "";
}

}  // namespace

DependencyStatus EvaluateDependency(const Snapshot& snapshot,
                                    const SchedulingSettings::Dependency& dependency) {
  const Job* job = FindMeant(snapshot, dependency);
  const bool array =
      job != nullptr && job->array.array_id == job->id && !dependency.task.has_value();
  std::string wanted =
      absl::StrCat(Wanted(dependency.on), array ? "array " : "job ", dependency.job_id);
  if (dependency.task.has_value()) absl::StrAppend(&wanted, "_", *dependency.task);
  DependencyStatus status{.state = DependencyOutlook::kWaiting,
                          .job_id = job == nullptr ? dependency.job_id : job->id,
                          .whole_array = array,
                          .message = absl::StrCat("waits for ", wanted)};
  const auto never = [&](uint64_t id, absl::string_view state) {
    status.state = DependencyOutlook::kNever;
    status.job_id = id;
    status.message = absl::StrCat("job ", id, " is ", state, ", and this job waits for ", wanted);
  };
  if (job == nullptr) {
    never(dependency.job_id,
          snapshot.IsForgottenOrArchived(dependency.job_id) ? "forgotten" : "unknown");
    return status;
  }
  const ArrayTally tally = TallyOf(snapshot, *job, array);
  if (dependency.on == On::kSuccess && tally.failed > 0) {
    never(tally.first_failed, JobStateName(snapshot.FindJob(tally.first_failed)->state));
  } else if (tally.open > 0) {
    // For an array nothing that changes with each task: thousands of jobs may have this message.
    if (!array) absl::StrAppend(&status.message, ", which is ", JobStateName(job->state));
  } else if (dependency.on == On::kFailure && tally.failed == 0) {
    never(tally.first_succeeded, JobStateName(JobState::kSucceeded));
  } else {
    return {};
  }
  return status;
}

DependencyStatus EvaluateDependencies(const Snapshot& snapshot, const Job& job) {
  DependencyStatus found;
  if (job.attempt > 0) return found;
  for (const SchedulingSettings::Dependency& dependency : job.settings->scheduling.after) {
    DependencyStatus status = EvaluateDependency(snapshot, dependency);
    if (status.state == DependencyOutlook::kNever) return status;
    if (found.state == DependencyOutlook::kMet) found = std::move(status);
  }
  return found;
}

absl::Time DependenciesMetAt(const Snapshot& snapshot, const Job& job) {
  absl::Time met = absl::InfinitePast();
  if (job.attempt > 0) return met;
  const auto add = [&met](const Job& other) {
    if (!other.events.empty()) met = std::max(met, HappenedAt(*other.events.back()));
  };
  for (const SchedulingSettings::Dependency& dependency : job.settings->scheduling.after) {
    const Job* meant = FindMeant(snapshot, dependency);
    if (meant == nullptr) continue;
    add(*meant);
    if (dependency.task.has_value() || meant->array.array_id != meant->id) continue;
    for (uint64_t id = meant->id + 1;; ++id) {
      const Job* task = snapshot.FindJob(id);
      if (task == nullptr || task->array.array_id != meant->id) break;
      add(*task);
    }
  }
  return met;
}

}  // namespace muster::controller
