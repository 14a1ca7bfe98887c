// Whether the jobs that a job waits for have ended as it wants (`scheduling.after`). Pure.
//
// The id of an array's first job, without a task's number, means the whole array: success is that
// of every task, failure is that all have ended and one of them without success.
#pragma once

#include <cstdint>
#include <string>

#include "controller/model/snapshot.h"

namespace muster::controller {

enum class DependencyOutlook : uint8_t {
  kMet,
  kWaiting,
  kNever,  // they ended otherwise
};

struct DependencyStatus {
  DependencyOutlook state = DependencyOutlook::kMet;
  uint64_t job_id = 0;       // whose end it waits for, or whose was wrong; 0: kMet
  bool whole_array = false;  // job_id is the first of the array that it waits for
  std::string message;  // "waits for the success of job 42", "job 42 is FAILED, and ..."; kMet: ""
};

DependencyStatus EvaluateDependency(const Snapshot& snapshot,
                                    const SchedulingSettings::Dependency& dependency);

// Of all that the job waits for: the first that can never be met, else the first that is not met
// yet. A job that has been placed before waits for nobody any more.
DependencyStatus EvaluateDependencies(const Snapshot& snapshot, const Job& job);

// When the last of the jobs ended that this one waited for, in ledger time; InfinitePast: it waited
// for none, or has been placed before. Requires that its dependencies are met.
absl::Time DependenciesMetAt(const Snapshot& snapshot, const Job& job);

}  // namespace muster::controller
