// Whether a job whose attempt was lost is tried again, when, and at whose charge. Pure.
//
// Each restart is charged to a budget: the class's own (restart.budgets), else the shared one
// (max_restarts). A committed checkpoint of a step above all before it refills them all; so does an
// attempt that came further than all before it, where the job saves elsewhere and commits nothing
// here. Preemption is free, as is a checkpoint root that is not seen. Out of memory and bad data
// have a budget of 0 unless the spec says otherwise. What comes from the job's own code and stops
// it in the same way at the same step twice in a row stops it for good, unless that was on a worker
// which it could do without; this does not apply to a job that reports no steps. A command whose
// program or folder is not there is tried at once on another worker, and ends when no other could
// take it. If all attempts that could not use its checkpoints had one worker in common, and the job
// could do without that one, it is tried on others, some times beyond its budget too. Where all
// that a job could resume from is in doubt, it waits for the next reading.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "controller/model/job_state.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

struct RestartDecision {
  JobInput input = JobInput::kClearedForRetry;  // or kBudgetSpent, kNotRetryable, kNoProgressMade
  absl::Duration wait;                          // before the next placement
  bool charged = false;                         // counts against the budget
  std::string message;                          // for people
};

// What muster-trainer exits with when it cannot use its launch file or spec.
inline constexpr int32_t kUsageExitCode = 2;

// Before a job is placed again whose checkpoint root was not seen: longer than its agent takes to
// notice that, also where the root hangs: 14 s (worker/agent/checkpoint/root_watcher).
inline constexpr absl::Duration kStorageRetry = absl::Seconds(15);

// Before a job is placed again that has nothing to resume from but checkpoints in doubt: longer
// than another reading takes to be asked for and to settle them (rules/checkpoints/checkpoint_rules).
inline constexpr absl::Duration kDoubtRetry = absl::Seconds(45);

// Beyond its budget, while its checkpoints failed on one worker alone and others could take it.
// Over some 19 hours: the first follows after the job's back-off, each later one waits twice as
// long as the one before, from a minute to an hour.
inline constexpr uint32_t kMostRestartsBeyond = 24;

// Requires a current attempt with its failure class noted. `seed` spreads the waits of jobs that
// were lost together: each is between three quarters of its back-off and the whole.
RestartDecision DecideRestart(const Snapshot& snapshot, const Job& job, uint64_t seed);

// Whether the current attempt reported a step above all of the earlier ones since the last requeue,
// of a job that has committed no checkpoint. Requires a current attempt.
bool GotFurtherUnsaved(const Snapshot& snapshot, const Job& job);

// The highest step that the job has committed since it was last requeued, whatever became of the
// checkpoint; -1: none.
int64_t FurthestCommit(const Snapshot& snapshot, const Job& job);

}  // namespace muster::controller
