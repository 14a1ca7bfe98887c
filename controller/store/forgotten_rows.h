// What becomes of the rows of jobs that are forgotten. Private to controller/store; errors as those
// of store/sqlite.h.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/job_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// The job's rows, with those of its ranks, attempts, checkpoints and events.
absl::Status DeleteJob(SqliteDatabase& db, const Job& job);

absl::Status PutForgottenTime(SqliteDatabase& db, const std::string& project,
                              const ForgottenTime& time);

// Into snapshot.forgotten_time.
absl::Status LoadForgottenTime(SqliteDatabase& db, Snapshot& snapshot);

}  // namespace muster::controller
