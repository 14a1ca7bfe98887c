// How many bytes of one kind metrics.db keeps of one job, while the job runs too: beyond it the
// job's oldest rows go. Used by MetricsStore inside its transaction, on its thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/metrics_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class JobBudget {
 public:
  // `db` outlives it. `count_sql` sums up what is stored of the job that it is given.
  JobBudget(SqliteDatabase& db, uint64_t bytes, const char* count_sql)
      : db_(db), count_sql_(count_sql), most_(bytes) {}
  virtual ~JobBudget() = default;

  void SetBytes(uint64_t bytes) { most_ = bytes; }

  // So many bytes of the job are about to be stored; makes room for them.
  absl::Status Add(uint64_t job_id, uint64_t bytes, IngestCounts& counts);

  // What is counted is counted anew when it is next asked for: after a rollback, or when the job's
  // rows were removed.
  void Forget() { stored_.clear(); }
  void Forget(uint64_t job_id) { stored_.erase(job_id); }
  size_t size() const { return stored_.size(); }

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
  std::unordered_map<uint64_t, uint64_t> stored_;  // bytes by job
};

}  // namespace muster::controller
