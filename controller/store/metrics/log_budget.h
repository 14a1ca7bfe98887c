// The budget of a job's logs: of what goes a gap in the rank's stream is recorded.
#pragma once

#include "controller/store/metrics/job_budget.h"

namespace muster::controller {

class LogBudget final : public JobBudget {
 public:
  explicit LogBudget(SqliteDatabase& db)
      : JobBudget(db, kDefaultJobLogBytes, "SELECT sum(length(text)) FROM logs WHERE job = ?") {}

 private:
  absl::StatusOr<uint64_t> DropSome(uint64_t job_id, IngestCounts& counts) override;
};

}  // namespace muster::controller
