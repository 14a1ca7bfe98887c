// The rows of jobs, with all that is theirs: attempts, ranks, checkpoints, events. state.db and
// history.db have tables with these columns (store/history/history_schema).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/model/types/checkpoint_types.h"
#include "controller/model/types/job_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

struct JobRows {
  std::map<uint64_t, Job> jobs;  // with their attempts, checkpoints' ids, and events
  std::map<uint64_t, std::shared_ptr<const Checkpoint>> checkpoints;
  std::vector<std::shared_ptr<const JobEvent>> events;  // by sequence
};

// The jobs with ids from `first` to `last`. `now`, since boot, stands for the times since boot of
// attempts. DATA_LOSS: rows contradict each other; else as store/sqlite.h.
absl::StatusOr<JobRows> ReadJobs(SqliteDatabase& db, uint64_t first, uint64_t last,
                                 absl::Duration now);

// The first events after `sequence`, of all jobs.
absl::StatusOr<std::vector<std::shared_ptr<const JobEvent>>> ReadEventsAfter(SqliteDatabase& db,
                                                                             uint64_t sequence,
                                                                             size_t most);

// The job's own row; its attempts and what else is its are put by themselves.
absl::Status InsertJobRow(SqliteDatabase& db, const Job& job);
absl::Status UpdateJobRow(SqliteDatabase& db, const Job& job);
// The attempt's row, made or changed, and those of `ranks`.
absl::Status PutAttempt(SqliteDatabase& db, const Attempt& attempt,
                        const std::set<uint32_t>& ranks);
absl::Status PutCheckpoint(SqliteDatabase& db, const Checkpoint& checkpoint);
absl::Status InsertEvent(SqliteDatabase& db, const JobEvent& event);

// All rows of a job that is as in `job`.
absl::Status InsertWholeJob(SqliteDatabase& db, const Job& job,
                            const std::vector<std::shared_ptr<const Checkpoint>>& checkpoints);
// The rows of the job, of its attempts, ranks and checkpoints, and of the events that `job` has.
absl::Status DeleteJob(SqliteDatabase& db, const Job& job);

// DATA_LOSS that names the database's file.
absl::Status Contradiction(const SqliteDatabase& db, const std::string& what);

}  // namespace muster::controller
