// The budget of a job's points; records the last dropped sequence number of each rank.
#pragma once

#include "controller/store/metrics/job_budget.h"

namespace muster::controller {

class PointBudget final : public JobBudget {
 public:
  explicit PointBudget(SqliteDatabase& db)
      : JobBudget(db, kDefaultJobPointBytes,
                  "SELECT sum(length(packed)) FROM points WHERE job = ?") {}

 private:
  absl::StatusOr<uint64_t> DropSome(uint64_t job_id, IngestCounts& counts) override;
};

}  // namespace muster::controller
