#include "controller/store/log_reader.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

// How far back a tail is looked for, in each rank and over all of them: it bounds one turn of the
// owner's thread.
constexpr uint64_t kMaxTailBytesPerRank = 4 << 20;
constexpr uint64_t kMaxTailBytes = 64 << 20;
constexpr int64_t kMaxChunksPerPage = 1024;

constexpr int64_t kAny = -1;

int64_t OrAny(const std::optional<uint32_t>& value) {
  return value.has_value() ? static_cast<int64_t>(*value) : kAny;
}

StoredLogChunk ChunkOf(SqliteStatement& row) {
  StoredLogChunk stored;
  stored.id = row.Int(0);
  stored.chunk.key.job_id = row.Int(1);
  stored.chunk.key.attempt = static_cast<uint32_t>(row.Int(2));
  stored.chunk.key.generation = static_cast<uint32_t>(row.Int(3));
  stored.chunk.key.rank = static_cast<uint32_t>(row.Int(4));
  stored.chunk.is_stderr = row.Int(5) != 0;
  stored.chunk.offset = row.Int(6);
  stored.chunk.text = std::string(row.Text(7));
  return stored;
}

absl::StatusOr<std::vector<StoredLogChunk>> Collect(SqliteStatement& select, uint64_t max_bytes) {
  std::vector<StoredLogChunk> chunks;
  uint64_t bytes = 0;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) return chunks;
    StoredLogChunk chunk = ChunkOf(select);
    bytes += chunk.chunk.text.size();
    if (bytes > max_bytes && !chunks.empty()) return chunks;
    chunks.push_back(std::move(chunk));
  }
}

// Walks one rank backwards until it has seen the start of its last `lines` lines.
absl::StatusOr<LogTail> FindTail(SqliteDatabase& db, const LogQuery& query, uint32_t rank,
                                 uint32_t lines, uint64_t& budget) {
  SqliteStatement select = db.Prepare(
      "SELECT attempt, id, text FROM logs WHERE job = ?1 AND rank = ?2 AND "
      "(?3 = -1 OR attempt = ?3) ORDER BY attempt DESC, id DESC");
  select.Bind(query.job_id);
  select.Bind(rank);
  select.Bind(OrAny(query.attempt));
  LogTail tail;
  tail.rank = rank;
  uint64_t seen_bytes = 0;
  uint64_t ends_wanted = lines;  // line ends to pass before the start is found
  bool is_last_byte = true;
  while (seen_bytes < kMaxTailBytesPerRank && budget > 0) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) break;
    const std::string text = select.Text(2);
    tail.start = {static_cast<uint32_t>(select.Int(0)), select.Int(1)};
    tail.skip_bytes = 0;
    for (size_t i = text.size(); i > 0; --i) {
      const bool ends_line = text[i - 1] == '\n';
      const bool ends_log = std::exchange(is_last_byte, false);
      if (!ends_line || ends_log) continue;
      if (--ends_wanted == 0) {
        tail.skip_bytes = i;
        return tail;
      }
    }
    seen_bytes += text.size();
    budget -= std::min<uint64_t>(budget, text.size());
  }
  return tail;
}

}  // namespace

absl::StatusOr<std::vector<StoredLogChunk>> ReadLogBacklog(SqliteDatabase& db,
                                                           const LogQuery& query,
                                                           const LogPage& page) {
  SqliteStatement select = db.Prepare(
      "SELECT id, job, attempt, generation, rank, is_stderr, offset, text FROM logs "
      "INDEXED BY logs_by_attempt WHERE job = ?1 AND (attempt, id) > (?2, ?3) AND id <= "
      "?4 AND (?5 = -1 OR attempt = ?5) AND (?6 = -1 OR rank = ?6) "
      "ORDER BY attempt, id LIMIT ?7");
  select.Bind(query.job_id);
  select.Bind(page.after.attempt);
  select.Bind(page.after.id);
  select.Bind(page.newest_id);
  select.Bind(OrAny(query.attempt));
  select.Bind(OrAny(query.rank));
  select.Bind(kMaxChunksPerPage);
  return Collect(select, page.max_bytes);
}

absl::StatusOr<std::vector<StoredLogChunk>> ReadLogArrivals(SqliteDatabase& db,
                                                            const LogQuery& query, int64_t after_id,
                                                            uint64_t max_bytes) {
  SqliteStatement select = db.Prepare(
      "SELECT id, job, attempt, generation, rank, is_stderr, offset, text FROM logs "
      "INDEXED BY logs_by_arrival WHERE job = ?1 AND id > ?2 AND "
      "(?3 = -1 OR attempt = ?3) AND (?4 = -1 OR rank = ?4) ORDER BY id LIMIT ?5");
  select.Bind(query.job_id);
  select.Bind(after_id);
  select.Bind(OrAny(query.attempt));
  select.Bind(OrAny(query.rank));
  select.Bind(kMaxChunksPerPage);
  return Collect(select, max_bytes);
}

absl::StatusOr<int64_t> ReadNewestLogId(SqliteDatabase& db) {
  SqliteStatement select = db.Prepare("SELECT coalesce(max(id), 0) FROM logs");
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? select.Int(0) : 0;
}

absl::StatusOr<std::vector<LogTail>> ReadLogTails(SqliteDatabase& db, const LogQuery& query,
                                                  uint32_t lines) {
  std::vector<uint32_t> ranks;
  {
    SqliteStatement select = db.Prepare(
        "SELECT DISTINCT rank FROM log_marks WHERE job = ?1 AND (?2 = -1 OR "
        "attempt = ?2) AND (?3 = -1 OR rank = ?3) ORDER BY rank");
    select.Bind(query.job_id);
    select.Bind(OrAny(query.attempt));
    select.Bind(OrAny(query.rank));
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
      if (!has_row) break;
      ranks.push_back(static_cast<uint32_t>(select.Int(0)));
    }
  }
  uint64_t budget = kMaxTailBytes;
  std::vector<LogTail> tails;
  for (const uint32_t rank : ranks) {
    MUSTER_ASSIGN_OR_RETURN(LogTail tail, FindTail(db, query, rank, lines, budget));
    tails.push_back(tail);
  }
  return tails;
}

}  // namespace muster::controller
