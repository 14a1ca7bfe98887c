#include "controller/store/metrics/points/point_budget.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/status_macros.h"
#include "controller/store/metrics/metrics_schema.h"

namespace muster::controller {
namespace {

constexpr int64_t kRowsPerTurn = 64;

}  // namespace

absl::StatusOr<uint64_t> PointBudget::DropSome(uint64_t job_id, IngestCounts& counts) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> last;  // by attempt, generation, rank
  uint64_t bytes = 0;
  {
    SqliteStatement drop = db().Prepare(
        "DELETE FROM points WHERE id IN (SELECT id FROM points WHERE job = ?1 ORDER BY id LIMIT ?2)"
        " RETURNING attempt, generation, rank, last_seq, count, length(packed)");
    drop.Bind(job_id).Bind(kRowsPerTurn);
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, drop.Step());
      if (!has_row) break;
      int64_t& seq = last[{drop.Int(0), drop.Int(1), drop.Int(2)}];
      seq = std::max(seq, drop.Int(3));
      counts.dropped_points += static_cast<uint64_t>(drop.Int(4));
      bytes += static_cast<uint64_t>(drop.Int(5));
    }
  }
  for (const auto& [rank, seq] : last) {
    const auto& [attempt, generation, number] = rank;
    MUSTER_RETURN_IF_ERROR(
        RecordDropped(db(), {job_id, attempt, generation, number, kPointsDropped, seq}));
  }
  return bytes;
}

}  // namespace muster::controller
