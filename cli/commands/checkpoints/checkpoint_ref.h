// What people call a checkpoint, and which one that is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"

namespace muster::cli {

inline constexpr char kCheckpointRefHelp[] = "its id, or JOB@STEP, JOB@best, JOB@newest";

using Checkpoints = std::vector<v1::CheckpointInfo>;

// Newest first, all of them.
absl::StatusOr<Checkpoints> ListCheckpoints(const v1::JobRef& job, Session& session);

// Whose checkpoints are asked for.
struct JobsWanted {
  std::vector<v1::JobState> states;  // empty: all
  std::string project, owner;        // empty: any
};
// Calls `take` with each such job, archived ones too, and its checkpoints, newest first. One call a
// job: says now and then how far it is.
absl::Status ForEachJobsCheckpoints(
    const JobsWanted& wanted, Session& session,
    const std::function<void(const v1::JobSummary& job, Checkpoints checkpoints)>& take);

// INVALID_ARGUMENT for what is no reference, NOT_FOUND when there is none; deleted and corrupt ones
// are found by their step or id only.
absl::StatusOr<v1::CheckpointInfo> FindCheckpoint(const std::string& text, Session& session);

}  // namespace muster::cli
