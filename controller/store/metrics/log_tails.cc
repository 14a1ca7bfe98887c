#include "controller/store/metrics/log_tails.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

struct Written {
  std::string text;
  int64_t ms = 0;
};
absl::StatusOr<Written> ReadChunk(SqliteDatabase& db, int64_t id) {
  SqliteStatement select = db.Prepare("SELECT text, written_ms FROM logs WHERE id = ?");
  select.Bind(id);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? Written{select.Text(0), select.Int(1)} : Written();
}

}  // namespace

absl::Status TailSearch::FindRanks(SqliteDatabase& db) {
  SqliteStatement select = db.Prepare(
      "SELECT DISTINCT rank FROM log_marks WHERE job = ?1 AND (?2 = -1 OR attempt = ?2) AND "
      "(?3 = -1 OR rank = ?3)");
  select.Bind(query_.job_id).Bind(OrAny(query_.attempt)).Bind(OrAny(query_.rank));
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) return absl::OkStatus();
    open_[static_cast<uint32_t>(select.Int(0))].ends_wanted = query_.tail_lines;
  }
}

absl::StatusOr<bool> TailSearch::Turn(SqliteDatabase& db) {
  if (!begun_) {
    MUSTER_RETURN_IF_ERROR(FindRanks(db));
    if (query_.attempt.has_value()) at_.attempt = *query_.attempt;
    begun_ = true;
  }
  // In two parts, since SQLite would not look (attempt, id) < (?, ?) up, but pass all after it.
  SqliteStatement chunks = db.Prepare(
      "SELECT attempt, id, rank FROM logs INDEXED BY logs_by_attempt WHERE job = ?1 "
      "AND attempt = ?2 AND id < ?3 UNION ALL "
      "SELECT attempt, id, rank FROM logs INDEXED BY logs_by_attempt WHERE job = ?1 "
      "AND attempt < ?2 AND attempt >= ?4 ORDER BY attempt DESC, id DESC");
  chunks.Bind(query_.job_id).Bind(at_.attempt).Bind(at_.id).Bind(query_.attempt.value_or(0));
  TurnBudget budget;
  while (!open_.empty() && seen_bytes_ < kMaxBytes) {
    if (budget.spent()) return false;
    MUSTER_ASSIGN_OR_RETURN(const bool has_chunk, chunks.Step());
    if (!has_chunk) return true;
    at_ = {static_cast<uint32_t>(chunks.Int(0)), chunks.Int(1)};
    budget.TakeEntry();
    const auto rank = static_cast<uint32_t>(chunks.Int(2));
    if (!open_.contains(rank)) continue;
    MUSTER_ASSIGN_OR_RETURN(const Written chunk, ReadChunk(db, at_.id));
    budget.TakeRow(chunk.text.size());
    if (!query_.Covers(chunk.ms)) continue;
    if (Pass(rank, at_, chunk.text)) open_.erase(rank);
  }
  return true;
}

bool TailSearch::Pass(uint32_t rank, const LogCursor& at, absl::string_view text) {
  Open& open = open_[rank];
  LogTail& tail = tails_[rank];
  tail = {.rank = rank, .start = at, .skip_bytes = 0};
  for (size_t i = text.size(); i > 0; --i) {
    const bool ends_line = text[i - 1] == '\n';
    const bool ends_log = std::exchange(open.is_last_byte, false);
    if (!ends_line || ends_log) continue;
    if (--open.ends_wanted == 0) {
      tail.skip_bytes = i;
      return true;
    }
  }
  seen_bytes_ += text.size();
  open.seen_bytes += text.size();
  return open.seen_bytes >= kMaxBytesPerRank;
}

}  // namespace muster::controller
