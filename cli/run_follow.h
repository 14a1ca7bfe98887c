// Stays with a job as if its program ran here: what its ranks write goes to our stdout and stderr.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/session.h"
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
// for before it starts. Ctrl-C cancels the job and waits for its last words; a second one leaves at
// once, with CANCELLED (exit code 130).
absl::StatusOr<RunOutcome> FollowRun(const RunOptions& options, Session& session);

// The exit code of the program where that decided how the job ended: that of the first rank that
// did not end with 0, or 128 and its signal. Otherwise ExitCodeOf(the job). Pure.
int ProgramExitCode(const v1::GetJobResponse& job);

}  // namespace muster::cli
