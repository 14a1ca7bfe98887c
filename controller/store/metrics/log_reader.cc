#include "controller/store/metrics/log_reader.h"

#include <tuple>

#include "common/base/status_macros.h"
#include "controller/store/metrics/turn_budget.h"

namespace muster::controller {
namespace {

constexpr int64_t kMaxArrivedPerPage = 1024;

StoredLogChunk ChunkOf(SqliteStatement& row) {
  StoredLogChunk stored;
  stored.id = row.Int(0);
  stored.chunk.key.job_id = row.Int(1);
  stored.chunk.key.attempt = static_cast<uint32_t>(row.Int(2));
  stored.chunk.key.generation = static_cast<uint32_t>(row.Int(3));
  stored.chunk.key.rank = static_cast<uint32_t>(row.Int(4));
  stored.chunk.is_stderr = row.Int(5) != 0;
  stored.chunk.offset = row.Int(6);
  stored.chunk.text = row.Text(7);
  stored.chunk.written_ms = row.Int(8);
  return stored;
}

// The id of the chunk that arrived last; 0: none.
absl::StatusOr<int64_t> ReadNewestId(SqliteDatabase& db) {
  SqliteStatement select = db.Prepare("SELECT coalesce(max(id), 0) FROM logs");
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? select.Int(0) : 0;
}

}  // namespace

absl::StatusOr<bool> LogReading::Turn(SqliteDatabase& db) {
  LogPosition& position = page_.position;
  if (!position.begun) {
    MUSTER_ASSIGN_OR_RETURN(position.begun, Begin(db));
    if (!position.begun) return false;
  }
  if (!position.following) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, ReadStored(db));
    if (!whole || !page_.chunks.empty()) return whole;
    position.following = true;
    position.followed_id = position.newest_id;
  }
  if (query_.follow) MUSTER_RETURN_IF_ERROR(ReadArrived(db));
  return true;
}

absl::StatusOr<bool> LogReading::Begin(SqliteDatabase& db) {
  LogPosition& position = page_.position;
  if (!search_.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(position.newest_id, ReadNewestId(db));
    if (query_.tail_lines == 0) return true;
    search_.emplace(query_);
  }
  MUSTER_ASSIGN_OR_RETURN(const bool found, search_->Turn(db));
  if (!found) return false;
  position.tails = search_->tails();
  bool is_first = true;
  for (const auto& [rank, tail] : position.tails) {
    const LogCursor before{tail.start.attempt, tail.start.id - 1};
    const LogCursor& cursor = position.cursor;
    if (is_first || std::tie(before.attempt, before.id) < std::tie(cursor.attempt, cursor.id)) {
      position.cursor = before;
    }
    is_first = false;
  }
  return true;
}

// Passes entries of the index alone, and reads those chunks that may be wanted.
absl::StatusOr<bool> LogReading::ReadStored(SqliteDatabase& db) {
  LogPosition& position = page_.position;
  // In two parts, since SQLite would not look (attempt, id) > (?, ?) up, but pass all before it.
  SqliteStatement entries = db.Prepare(
      "SELECT attempt, id, rank FROM logs INDEXED BY logs_by_attempt WHERE job = ?1 "
      "AND attempt = ?2 AND id > ?3 AND id <= ?4 AND (?5 = -1 OR attempt = ?5) UNION ALL "
      "SELECT attempt, id, rank FROM logs INDEXED BY logs_by_attempt WHERE job = ?1 "
      "AND attempt > ?2 AND id <= ?4 AND (?5 = -1 OR attempt = ?5) ORDER BY attempt, id");
  entries.Bind(query_.job_id).Bind(position.cursor.attempt).Bind(position.cursor.id);
  entries.Bind(position.newest_id).Bind(OrAny(query_.attempt));
  TurnBudget budget;
  uint64_t bytes = 0;
  while (bytes < page_bytes_) {
    if (budget.spent()) return !page_.chunks.empty();
    MUSTER_ASSIGN_OR_RETURN(const bool has_entry, entries.Step());
    if (!has_entry) return true;
    budget.TakeEntry();
    position.cursor = {static_cast<uint32_t>(entries.Int(0)), entries.Int(1)};
    const auto rank = static_cast<uint32_t>(entries.Int(2));
    if (query_.rank.value_or(rank) != rank) continue;
    SqliteStatement select = db.Prepare(
        "SELECT id, job, attempt, generation, rank, is_stderr, offset, text, written_ms FROM logs "
        "WHERE id = ?");
    select.Bind(position.cursor.id);
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) continue;
    StoredLogChunk stored = ChunkOf(select);
    budget.TakeRow(stored.chunk.text.size());
    if (!query_.Covers(stored.chunk.written_ms)) continue;
    bytes += stored.chunk.text.size();
    page_.chunks.push_back(std::move(stored));
  }
  return true;
}

absl::Status LogReading::ReadArrived(SqliteDatabase& db) {
  LogPosition& position = page_.position;
  // Of a rank that says nothing, what the others say is passed once.
  MUSTER_ASSIGN_OR_RETURN(const int64_t newest_id, ReadNewestId(db));
  SqliteStatement select = db.Prepare(
      "SELECT id, job, attempt, generation, rank, is_stderr, offset, text, written_ms FROM logs "
      "INDEXED BY logs_by_arrival WHERE job = ?1 AND id > ?2 AND (?3 = -1 OR attempt = ?3) AND "
      "(?4 = -1 OR rank = ?4) AND written_ms >= ?5 ORDER BY id LIMIT ?6");
  select.Bind(query_.job_id).Bind(position.followed_id);
  select.Bind(OrAny(query_.attempt)).Bind(OrAny(query_.rank)).Bind(query_.since_ms);
  select.Bind(kMaxArrivedPerPage);
  MUSTER_RETURN_IF_ERROR(Collect(select));
  position.followed_id = page_.chunks.empty() ? newest_id : page_.chunks.back().id;
  return absl::OkStatus();
}

absl::Status LogReading::Collect(SqliteStatement& chunks) {
  uint64_t bytes = 0;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, chunks.Step());
    if (!has_row) return absl::OkStatus();
    StoredLogChunk chunk = ChunkOf(chunks);
    bytes += chunk.chunk.text.size();
    if (bytes > page_bytes_ && !page_.chunks.empty()) return absl::OkStatus();
    page_.chunks.push_back(std::move(chunk));
  }
}

}  // namespace muster::controller
