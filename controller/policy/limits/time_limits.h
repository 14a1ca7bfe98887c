// Which jobs have run or waited for longer than they may: their maximum run time, their deadline,
// jobs to wait for that can no longer end as wanted, and another job's checkpoints to begin from
// that are gone. Pure: snapshot and time in, findings out; the applier checks each again.
//
// Run time counts from placement to end, over all attempts since the job was last requeued, in
// ledger time: whoever sets the wall clock changes nothing of it. Deadlines and begin times, which
// people name, go by the wall clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/model/job_state.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

// How long the job has run by `now`, in ledger time; see above.
absl::Duration RunTime(const Job& job, absl::Time now);
// The part of it that belongs to attempts which are over.
absl::Duration PastRunTime(const Job& job);

// The same moment by the wall clock and since boot.
struct Moment {
  absl::Time wall;
  absl::Duration now;
};

struct PassedLimit {
  // Or kDeadlinePassed, kDependencyFailed, kNotRetryable (nothing to resume from).
  JobInput input = JobInput::kTimeLimit;
  std::string message;  // for people
};

// OK, or FAILED_PRECONDITION "refused: ...": a deadline that has passed, or that comes before the
// job may begin.
absl::Status CanKeepTimes(const SchedulingSettings& scheduling, absl::Time now);

// Nothing for a job within its limits, or one that is being stopped or has ended.
std::optional<PassedLimit> EvaluateLimits(const Snapshot& snapshot, const Job& job,
                                          const Moment& moment);

// A LimitPassed for each job for which EvaluateLimits finds one, `most` at most. Cost: active jobs.
std::vector<Finding> FindPassedLimits(const Snapshot& snapshot, const Moment& moment,
                                      size_t most = Findings::kMost);

}  // namespace muster::controller
