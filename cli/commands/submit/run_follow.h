// Stays with a job as if its program ran here: what its ranks write goes to our stdout and stderr.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"
#include "cli/session/interrupt.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

struct RunOptions {
  uint64_t job_id = 0;
  bool prefix = false;  // each line with its attempt and rank
};

struct RunOutcome {
  v1::GetJobResponse job;
  bool interrupted = false;
};

// Returns when the job has ended, across restarts of the controller. Says on stderr what it waits
// for before it starts. An interrupt, also one that was there before, cancels the job and waits for
// its last words; the next one leaves at once. CANCELLED (exit code 130): interrupted, and the job
// is not known to have ended; the message names it.
absl::StatusOr<RunOutcome> FollowRun(const RunOptions& options, Session& session,
                                     InterruptGuard& guard);

// The exit code of the program where that decided how the job ended: that of the first rank that
// did not end with 0, or 128 and its signal. Otherwise ExitCodeOf(the job). Pure.
int ProgramExitCode(const v1::GetJobResponse& job);

}  // namespace muster::cli
