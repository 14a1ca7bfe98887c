#include "controller/store/log_budget.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/status_macros.h"
#include "controller/store/metrics_schema.h"

namespace muster::controller {
namespace {

// Dropping goes on until this part of the budget is free, so that it is not done for each chunk.
constexpr uint64_t kFreePart = 8;
constexpr int64_t kChunksPerTurn = 64;

}  // namespace

absl::StatusOr<uint64_t> LogBudget::CountStored(uint64_t job_id) {
  SqliteStatement select = db_.Prepare("SELECT sum(length(text)) FROM logs WHERE job = ?");
  select.Bind(job_id);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? static_cast<uint64_t>(select.Int(0)) : 0;
}

absl::StatusOr<uint64_t> LogBudget::DropSome(uint64_t job_id, IngestCounts& counts) {
  using Stream = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // attempt, generation, rank, kind
  std::map<Stream, int64_t> last;                                 // the last byte that goes
  uint64_t bytes = 0;
  {
    SqliteStatement drop = db_.Prepare(
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
    // One row a stream: it grows.
    SqliteStatement old = db_.Prepare(
        "DELETE FROM gaps WHERE job = ? AND attempt = ? AND generation = ? AND rank = ?"
        " AND kind = ?");
    old.Bind(job_id).Bind(attempt).Bind(generation).Bind(rank).Bind(kind);
    MUSTER_RETURN_IF_ERROR(old.Run());
    SqliteStatement insert = db_.Prepare(
        "INSERT INTO gaps(job, attempt, generation, rank, kind, first, last)"
        " VALUES(?, ?, ?, ?, ?, 0, ?)");
    insert.Bind(job_id).Bind(attempt).Bind(generation).Bind(rank).Bind(kind).Bind(end);
    MUSTER_RETURN_IF_ERROR(insert.Run());
  }
  counts.dropped_log_bytes += bytes;
  return bytes;
}

absl::Status LogBudget::Add(uint64_t job_id, uint64_t bytes, IngestCounts& counts) {
  auto it = stored_.find(job_id);
  if (it == stored_.end()) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t counted, CountStored(job_id));
    it = stored_.emplace(job_id, counted).first;
  }
  if (it->second + bytes > most_) {
    const uint64_t goal = most_ - most_ / kFreePart;
    while (it->second + bytes > goal && it->second > 0) {
      MUSTER_ASSIGN_OR_RETURN(const uint64_t dropped, DropSome(job_id, counts));
      if (dropped == 0) break;
      it->second -= std::min(it->second, dropped);
    }
  }
  it->second += bytes;
  return absl::OkStatus();
}

}  // namespace muster::controller
