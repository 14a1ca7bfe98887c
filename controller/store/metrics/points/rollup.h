// Thinned copies of a job's points, so that the plot of a long run reads few rows, and shows what
// the budget of its points has dropped.
//
// kRows rows of one rank become one row of level 1, with at most kPoints points of each name; as
// many of these become one of level 2, and so on. Used by MetricsStore inside its transaction, on
// its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/types/metrics_types.h"
#include "controller/store/metrics/job_budget.h"
#include "controller/store/metrics/points/point_codec.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// The oldest rows go that a higher level covers, and only then others: a plot of the whole becomes
// coarser before it becomes shorter.
class RollupBudget final : public JobBudget {
 public:
  static constexpr uint64_t kPart = 4;  // of what is kept of a job's points
  explicit RollupBudget(SqliteDatabase& db)
      : JobBudget(db, kDefaultJobPointBytes / kPart,
                  "SELECT sum(length(packed)) FROM rollups WHERE job = ?") {}

 private:
  absl::StatusOr<uint64_t> DropSome(uint64_t job_id, IngestCounts& counts) override;
};

class Rollup {
 public:
  static constexpr size_t kRows = 64;
  static constexpr size_t kPoints = 32;

  // `db` and `budget` outlive it.
  Rollup(SqliteDatabase& db, RollupBudget& budget) : db_(db), budget_(budget) {}

  // A row of the rank's points was written, in the transaction under way.
  absl::Status NoteRow(const RankKey& key, int64_t id, IngestCounts& counts);
  // That transaction is undone: what is to be rolled up is read again.
  void Forget() { waiting_.clear(); }
  // Rows of the job were removed.
  void Forget(uint64_t job_id) {
    waiting_.erase(waiting_.lower_bound(RankKey{job_id}),
                   waiting_.lower_bound(RankKey{job_id + 1}));
  }

 private:
  // Rows that are not rolled up yet, ascending; by level, 0: rows of `points`.
  using Waiting = std::vector<std::vector<int64_t>>;

  absl::StatusOr<Waiting*> FindWaiting(const RankKey& key);
  // Rolls up the first kRows rows that wait at `level`.
  absl::Status RollUpFirst(const RankKey& key, size_t level, Waiting& waiting,
                           IngestCounts& counts);
  // Gives the row that was made.
  absl::StatusOr<int64_t> RollUp(const RankKey& key, int level, const std::vector<int64_t>& rows,
                                 IngestCounts& counts);

  SqliteDatabase& db_;
  RollupBudget& budget_;
  std::map<RankKey, Waiting> waiting_;
};

// The level that a series of `max_points` is thinned from, over the steps [from, to): the coarsest
// that has enough points, or one that reaches further back. 0: the points themselves.
absl::StatusOr<int> RollupLevelFor(SqliteDatabase& db, uint64_t job_id, uint32_t rank, int64_t from,
                                   int64_t to, size_t max_points);

}  // namespace muster::controller
