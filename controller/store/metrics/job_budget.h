// How many bytes of one kind metrics.db keeps of one job, while the job runs too: beyond it the
// job's oldest rows go. Used by MetricsStore inside its transaction, on its thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/types/metrics_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class JobBudget {
 public:
  // `db` outlives it. `count_sql` sums up what is stored of the job that it is given.
  JobBudget(SqliteDatabase& db, uint64_t bytes, const char* count_sql)
      : db_(db), count_sql_(count_sql), most_(bytes) {}
  virtual ~JobBudget() = default;

  void SetBytes(uint64_t bytes) { most_ = bytes; }

  // So many bytes of the job are about to be stored, in the transaction under way; makes room for
  // them. What is far beyond the budget, since that was lowered, goes bit by bit with later ones.
  absl::Status Add(uint64_t job_id, uint64_t bytes, IngestCounts& counts);
  // That transaction is in, or nothing of it is.
  void Commit();
  void Rollback();

  // Rows of the job were removed: what is left is counted anew when it is next asked for.
  void Forget(uint64_t job_id) { stored_.erase(job_id); }

 protected:
  SqliteDatabase& db() { return db_; }

 private:
  absl::StatusOr<uint64_t> CountStored(uint64_t job_id);
  // Drops some of the oldest rows and records that they are gone; how many bytes. 0: there are
  // none.
  virtual absl::StatusOr<uint64_t> DropSome(uint64_t job_id, IngestCounts& counts) = 0;

  SqliteDatabase& db_;
  const char* const count_sql_;
  uint64_t most_;
  int turns_ = 0;  // of dropping, in the transaction under way
  // Bytes by job. Counting them reads all rows of a job, so it is done once a job and not after
  // each transaction that a full disk refuses.
  std::unordered_map<uint64_t, uint64_t> stored_;
  std::unordered_map<uint64_t, uint64_t> before_;  // of what the transaction under way changed
};

}  // namespace muster::controller
