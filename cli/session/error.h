// Errors as the user sees them: what went wrong with which object, the way out, and the program's
// exit code. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// docs/CLI.md lists these; scripts rely on them.
enum class ExitCode {
  kDone = 0,
  kInternal = 1,
  kUsage = 2,
  kNotFound = 3,
  kNotAllowed = 4,
  kUnreachable = 5,  // safe to retry with the same key
  kWrongState = 6,   // also: the key is of a job with another spec
  kRefused = 7,
  kTimedOut = 8,  // while the job goes on
  kJobFailed = 10,
  kJobCancelled = 11,
  kJobBudgetSpent = 12,
  kJobNoProgress = 13,
  kInterrupted = 130,
};

// The same status with a sentence on what to do next.
absl::Status WithHint(absl::Status status, absl::string_view hint);
std::string HintOf(const absl::Status& status);

// The same status with the idempotency key of a submit that may have happened all the same.
absl::Status WithKey(absl::Status status, absl::string_view key);

// Marks a status as "the time given is over, the job goes on": exit code 8 instead of 5.
absl::Status TimedOut(absl::string_view message);

// Marks a status as "the user pressed Ctrl-C": exit code 130.
absl::Status Interrupted(absl::string_view message);

// Requires an error.
ExitCode ExitCodeOf(const absl::Status& status);

// Of a finished job. Requires a terminal state.
ExitCode ExitCodeOf(const v1::JobSummary& job);

// "muster: <message>\n  <hint>\n"; with `json` one line {"code","message","hint","retryable"},
// and "idempotency_key" where the status has one.
std::string ErrorText(const absl::Status& status, bool json);

}  // namespace muster::cli
