#include "controller/store/metrics/log_budget.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/status_macros.h"
#include "controller/store/metrics/metrics_schema.h"

namespace muster::controller {
namespace {

constexpr int64_t kChunksPerTurn = 64;

}  // namespace

absl::StatusOr<uint64_t> LogBudget::DropSome(uint64_t job_id, IngestCounts& counts) {
  using Stream = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // attempt, generation, rank, kind
  std::map<Stream, int64_t> last;                                 // the last byte that goes
  uint64_t bytes = 0;
  {
    SqliteStatement drop = db().Prepare(
        "DELETE FROM logs WHERE id IN (SELECT id FROM logs WHERE job = ?1 ORDER BY id LIMIT ?2) "
        "RETURNING attempt, generation, rank, is_stderr, offset, length(text)");
    drop.Bind(job_id).Bind(kChunksPerTurn);
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, drop.Step());
      if (!has_row) break;
      const int64_t kind = drop.Int(3) != 0 ? kStderrDropped : kStdoutDropped;
      int64_t& end = last[{drop.Int(0), drop.Int(1), drop.Int(2), kind}];
      end = std::max(end, drop.Int(4) + drop.Int(5) - 1);
      bytes += static_cast<uint64_t>(drop.Int(5));
    }
  }
  for (const auto& [stream, end] : last) {
    const auto& [attempt, generation, rank, kind] = stream;
    MUSTER_RETURN_IF_ERROR(RecordDropped(db(), {job_id, attempt, generation, rank, kind, end}));
  }
  counts.dropped_log_bytes += bytes;
  return bytes;
}

}  // namespace muster::controller
