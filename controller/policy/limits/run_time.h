// How long jobs will run, as far as anybody can tell: of a running job by its own progress, else
// declared, else learned from earlier jobs of the same project and name, else the most that they
// may. Pure.
//
// How long an attempt has run counts in ledger time, so that nobody who sets the wall clock changes
// it; only the end that is told is a time of the wall clock.
//
// Of a job that was lost or requeued only what it has saved since the requeue counts as done: the
// rest has to be done once more.
#pragma once

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/explanation_types.h"
#include "controller/policy/limits/time_limits.h"

namespace muster::controller {

// All attempts together; infinite: nobody can tell.
absl::Duration ExpectedRunTime(const Snapshot& snapshot, const JobSettings& settings);

// What ExpectedRunTime goes by.
RunTimeSource SourceOfRunTime(const Snapshot& snapshot, const JobSettings& settings);

// Of a job that is to be placed, or of its live attempt from the start: what its own progress
// foretells (model/pace_rules.h), else what is left after the work of its earlier attempts that was
// saved, at least a tenth of the whole; at most what its limit leaves; infinite: nobody can tell.
absl::Duration ExpectedRunTimeLeft(const Snapshot& snapshot, const Job& job);

// What ExpectedRunTimeLeft goes by.
RunTimeSource SourceOfRunTimeLeft(const Snapshot& snapshot, const Job& job);

// When the live attempt will give its slots back, by the wall clock: at `moment` when it is being
// ended; infinite when nobody can tell, or when it has run longer than expected and has no limit.
// An end that its own progress foretold may be late by a tenth of its time, at least a minute: what
// follows the last step, a test or an export, is not foretold. Requires a live attempt.
absl::Time ExpectedEnd(const Snapshot& snapshot, const Job& job, const Moment& moment);

}  // namespace muster::controller
