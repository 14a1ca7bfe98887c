// What the verbs that are done to jobs one after the other have in common: cancel, hold, release,
// suspend, resume, requeue, update.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"

namespace muster::cli {

struct JobVerbFlags {
  std::vector<std::string> jobs;  // ids, names, ARRAY_INDEX or ARRAY_*
  bool array = false;             // each means its whole array
};

// JOB... and --array.
void AddJobVerbFlags(CLI::App& command, JobVerbFlags& flags);

struct JobTarget {
  v1::JobRef job;
  bool whole_array = false;
};
struct JobAnswer {
  v1::JobSummary summary;  // of the job, or of the array's first one
  uint32_t jobs = 1;       // how many it was
};

// Does it to each job and prints how each stands then. Goes on after a job that it cannot be done
// to; the first error decides the exit code, each is printed.
absl::StatusOr<ExitCode> ForEachJob(
    const JobVerbFlags& flags, Session& session,
    const std::function<absl::StatusOr<JobAnswer>(const JobTarget&)>& act);

}  // namespace muster::cli
