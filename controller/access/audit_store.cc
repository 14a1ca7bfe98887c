#include "controller/access/audit_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "controller/access/audit_chain.h"

namespace muster::controller {
namespace {

constexpr size_t kNameBytes = 96;
constexpr size_t kObjectBytes = 256;
constexpr size_t kDetailBytes = 512;
// A row's numbers, its hash, and what SQLite adds.
constexpr uint64_t kRowBytes = 120;

AuditEntry Cut(AuditEntry entry) {
  const auto cut = [](std::string& text, size_t most) { text = CutUtf8(RepairUtf8(text), most); };
  cut(entry.user, kNameBytes);
  cut(entry.token_name, kNameBytes);
  cut(entry.method, kNameBytes);
  cut(entry.project, kNameBytes);
  cut(entry.object, kObjectBytes);
  cut(entry.outcome, kNameBytes);
  cut(entry.detail, kDetailBytes);
  entry.time = absl::FromUnixMillis(absl::ToUnixMillis(entry.time));
  return entry;
}

uint64_t BytesOf(const AuditEntry& entry) {
  return kRowBytes + entry.user.size() + entry.token_name.size() + entry.method.size() +
         entry.project.size() + entry.object.size() + entry.outcome.size() + entry.detail.size();
}

absl::Status MadeAnew(uint64_t seq) {
  return absl::DataLossError(absl::StrCat(
      "audit row ", seq,
      ": its hash is another than was told before: the record was made anew from there or "
      "earlier"));
}

int64_t MillisOr(absl::Time time, int64_t infinite) {
  return time == absl::InfinitePast() || time == absl::InfiniteFuture() ? infinite
                                                                        : absl::ToUnixMillis(time);
}

}  // namespace

AuditRow AuditStore::RowOf(const SqliteStatement& statement) {
  AuditRow row;
  row.seq = static_cast<uint64_t>(statement.Int(0));
  row.entry.time = absl::FromUnixMillis(statement.Int(1));
  row.entry.user = statement.Text(2);
  row.entry.token_name = statement.Text(3);
  row.entry.method = statement.Text(4);
  row.entry.project = statement.Text(5);
  row.entry.object = statement.Text(6);
  row.entry.outcome = statement.Text(7);
  row.entry.count = static_cast<uint64_t>(statement.Int(8));
  row.entry.detail = statement.Text(9);
  row.hash = statement.Text(10);
  return row;
}

absl::Status AuditStore::Load() {
  begin_ = {.seq = 0, .hash = FirstAuditHash()};
  {
    SqliteStatement begin = db_.Prepare("SELECT seq, hash FROM audit_begin");
    MUSTER_ASSIGN_OR_RETURN(const bool any, begin.Step());
    if (any) begin_ = {.seq = static_cast<uint64_t>(begin.Int(0)), .hash = begin.Text(1)};
  }
  end_ = begin_;
  {
    SqliteStatement end = db_.Prepare("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1");
    MUSTER_ASSIGN_OR_RETURN(const bool any, end.Step());
    if (any) end_ = {.seq = static_cast<uint64_t>(end.Int(0)), .hash = end.Text(1)};
  }
  SqliteStatement sum = db_.Prepare(
      "SELECT COUNT(*), COALESCE(SUM(LENGTH(CAST(user AS BLOB)) + LENGTH(CAST(token_name AS BLOB)) "
      "+ LENGTH(method) + LENGTH(project) + LENGTH(CAST(object AS BLOB)) + LENGTH(outcome) + "
      "LENGTH(CAST(detail AS BLOB))), 0) FROM audit");
  MUSTER_RETURN_IF_ERROR(sum.Step().status());
  bytes_ = static_cast<uint64_t>(sum.Int(0)) * kRowBytes + static_cast<uint64_t>(sum.Int(1));
  Settle(true);
  return absl::OkStatus();
}

absl::Status AuditStore::Append(const AuditEntry& entry) {
  AuditRow row{.seq = end_.seq + 1, .entry = Cut(entry), .hash = ""};
  row.hash = AuditHash(end_.hash, row);
  MUSTER_RETURN_IF_ERROR(db_.Prepare("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                             .Bind(row.seq)
                             .Bind(absl::ToUnixMillis(row.entry.time))
                             .Bind(row.entry.user)
                             .Bind(row.entry.token_name)
                             .Bind(row.entry.method)
                             .Bind(row.entry.project)
                             .Bind(row.entry.object)
                             .Bind(row.entry.outcome)
                             .Bind(row.entry.count)
                             .Bind(row.entry.detail)
                             .Bind(row.hash)
                             .Run());
  bytes_ += BytesOf(row.entry);
  end_ = {.seq = row.seq, .hash = std::move(row.hash)};
  return absl::OkStatus();
}

void AuditStore::Settle(bool committed) {
  if (committed) {
    committed_end_ = end_;
    committed_bytes_ = bytes_;
  } else {
    end_ = committed_end_;
    bytes_ = committed_bytes_;
  }
}

absl::Status AuditStore::Trim() {
  if (bytes_ <= max_bytes_) return absl::OkStatus();
  AuditPoint dropped = begin_;
  uint64_t bytes = 0;
  {
    SqliteStatement rows = db_.Prepare(
        "SELECT seq, time_ms, user, token_name, method, project, object, outcome, count, detail, "
        "hash FROM audit ORDER BY seq LIMIT ?");
    rows.Bind(kStep);
    // A tenth less than there may be, so that it does not come at every row.
    while (bytes_ - bytes > max_bytes_ / 10 * 9) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      AuditRow oldest = RowOf(rows);
      if (oldest.seq >= end_.seq) break;  // the newest stays
      bytes += std::min(bytes_ - bytes, BytesOf(oldest.entry));
      dropped = {.seq = oldest.seq, .hash = std::move(oldest.hash)};
    }
  }
  MUSTER_RETURN_IF_ERROR(db_.Begin());
  absl::Status status = db_.Prepare("INSERT OR REPLACE INTO audit_begin VALUES (1, ?, ?)")
                            .Bind(dropped.seq)
                            .Bind(dropped.hash)
                            .Run();
  if (status.ok()) {
    status = db_.Prepare("DELETE FROM audit WHERE seq <= ?").Bind(dropped.seq).Run();
  }
  if (!status.ok()) {
    db_.Rollback();
    return status;
  }
  MUSTER_RETURN_IF_ERROR(db_.Commit());
  begin_ = dropped;
  bytes_ -= bytes;
  committed_bytes_ = bytes_;
  return absl::OkStatus();
}

absl::StatusOr<AuditPage> AuditStore::Read(const AuditQuery& query) {
  SqliteStatement rows = db_.Prepare(
      "SELECT seq, time_ms, user, token_name, method, project, object, outcome, count, detail, "
      "hash FROM audit WHERE seq < ? AND time_ms >= ? AND time_ms < ? AND (? = '' OR user = ?) "
      "AND (? = 0 OR outcome <> 'OK') ORDER BY seq DESC LIMIT ?");
  rows.Bind(query.below == 0 ? std::numeric_limits<int64_t>::max()
                             : static_cast<int64_t>(query.below));
  rows.Bind(MillisOr(query.since, 0))
      .Bind(MillisOr(query.until, std::numeric_limits<int64_t>::max()))
      .Bind(query.user)
      .Bind(query.user)
      .Bind(query.denied)
      .Bind(static_cast<int64_t>(query.most) + 1);
  AuditPage page;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return page;
    if (page.rows.size() == query.most) {
      page.more = true;
      return page;
    }
    page.rows.push_back(RowOf(rows));
  }
}

absl::Status AuditStore::CheckKnown(const AuditPoint& known) const {
  if (known.seq > end_.seq) {
    return absl::DataLossError(absl::StrCat(
        "audit row ", known.seq, ": was told before, and is missing; the newest is ", end_.seq));
  }
  if (known.seq < begin_.seq) {
    return absl::NotFoundError(absl::StrCat(
        "audit row ", known.seq, ": was dropped, and there is nothing to hold its hash against: ",
        "the record begins with row ", begin_.seq + 1,
        "; hold a newer head against it, or raise musterd's --audit-max-bytes"));
  }
  return known.seq == begin_.seq && known.hash != begin_.hash ? MadeAnew(known.seq)
                                                              : absl::OkStatus();
}

absl::Status AuditStore::Verify(const AuditPoint& known, AuditWalk& walk) {
  AuditVerdict& verdict = walk.verdict;
  if (!walk.began || verdict.end.seq < begin_.seq) {
    // Those that were dropped, since the last step perhaps, are not seen; those that follow are
    // bound to what is known of them.
    if (known.seq > verdict.end.seq) MUSTER_RETURN_IF_ERROR(CheckKnown(known));
    walk.began = true;
    verdict.begin = begin_;
    verdict.end = begin_;
  }
  SqliteStatement rows = db_.Prepare(
      "SELECT seq, time_ms, user, token_name, method, project, object, outcome, count, detail, "
      "hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?");
  rows.Bind(verdict.end.seq).Bind(kStep);
  int seen = 0;
  for (; seen < kStep; ++seen) {
    MUSTER_ASSIGN_OR_RETURN(const bool any, rows.Step());
    if (!any) break;
    const AuditRow row = RowOf(rows);
    MUSTER_RETURN_IF_ERROR(FollowAuditRow(row, verdict.end));
    ++verdict.rows;
    if (row.seq == known.seq && row.hash != known.hash) return MadeAnew(row.seq);
  }
  if (seen == kStep) return absl::OkStatus();
  walk.done = true;
  // What this process wrote is known to it.
  if (verdict.end.seq == end_.seq && verdict.end.hash == end_.hash) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("audit row ", verdict.end.seq + 1, ": it was written, and is missing"));
}

}  // namespace muster::controller
