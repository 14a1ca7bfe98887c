#include "controller/store/metrics/points/series_scan.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

// Rows of a segment after (?5, ?6), by their smallest step. All of it stands in the index: a row
// that holds nothing of the segment is not read. In two parts, since SQLite would not look
// (min_step, id) > (?, ?) up, but pass all before it.
constexpr char kPointRows[] = R"sql(
SELECT min_step, id, max_step, id FROM points INDEXED BY points_by_step
  WHERE job = ?1 AND rank = ?2 AND attempt = ?3 AND generation = ?4
    AND min_step = ?5 AND id > ?6 AND id > ?8
UNION ALL
SELECT min_step, id, max_step, id FROM points INDEXED BY points_by_step
  WHERE job = ?1 AND rank = ?2 AND attempt = ?3 AND generation = ?4
    AND min_step > ?5 AND min_step < ?7 AND id > ?8
ORDER BY min_step, id)sql";
constexpr char kRollupRows[] = R"sql(
SELECT min_step, id, max_step, last_row FROM rollups INDEXED BY rollups_by_step
  WHERE job = ?1 AND rank = ?2 AND attempt = ?3 AND generation = ?4 AND level = ?9
    AND min_step = ?5 AND id > ?6 AND last_row > ?8
UNION ALL
SELECT min_step, id, max_step, last_row FROM rollups INDEXED BY rollups_by_step
  WHERE job = ?1 AND rank = ?2 AND attempt = ?3 AND generation = ?4 AND level = ?9
    AND min_step > ?5 AND min_step < ?7 AND last_row > ?8
ORDER BY min_step, id)sql";

// 0: there is none.
absl::StatusOr<uint64_t> FindNameId(SqliteDatabase& db, const std::string& metric) {
  SqliteStatement select = db.Prepare("SELECT id FROM metric_names WHERE name = ?");
  select.Bind(metric);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? static_cast<uint64_t>(select.Int(0)) : 0;
}

}  // namespace

absl::Status SeriesScan::ReadOn(SqliteDatabase& db, TurnBudget& budget, const Take& take) {
  // Looked up in each turn: the database may be another one by now.
  MUSTER_ASSIGN_OR_RETURN(name_id_, FindNameId(db, name_.metric));
  budget.TakeLookUp();
  while (!ended()) {
    MUSTER_ASSIGN_OR_RETURN(const bool to_its_end, ReadSegment(db, budget, take));
    if (!to_its_end) return absl::OkStatus();
    GiveBelow(NextFrom(), take);
    ++segment_;
    level_ = top_level_;
    min_step_ = -1;
    row_id_ = 0;
    covered_ = newest_ = {};
    given_ = -1;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SeriesScan::ReadSegment(SqliteDatabase& db, TurnBudget& budget,
                                             const Take& take) {
  const Segment& segment = segments_[segment_];
  if (segment.from >= segment.to) return true;
  for (;; --level_) {
    MUSTER_ASSIGN_OR_RETURN(const bool to_its_end, ReadLevel(db, budget, take));
    if (!to_its_end) return false;
    if (level_ == 0) return true;
    min_step_ = -1;
    row_id_ = 0;
    covered_ = newest_;
  }
}

absl::StatusOr<bool> SeriesScan::ReadLevel(SqliteDatabase& db, TurnBudget& budget,
                                           const Take& take) {
  const Segment& segment = segments_[segment_];
  SqliteStatement rows = db.Prepare(level_ == 0 ? kPointRows : kRollupRows);
  rows.Bind(name_.job_id).Bind(name_.rank).Bind(segment.attempt).Bind(segment.generation);
  // What is not covered yet is hardly of earlier steps than what is.
  rows.Bind(std::max(min_step_, covered_.min_step - 1)).Bind(row_id_).Bind(segment.to);
  rows.Bind(covered_.row);
  if (level_ > 0) rows.Bind(level_);
  budget.TakeLookUp();
  while (!budget.spent()) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return true;
    const int64_t min_step = rows.Int(0);
    GiveBelow(std::min(min_step, NextFrom()), take);
    if (refused_) return false;
    min_step_ = min_step;
    row_id_ = rows.Int(1);
    if (rows.Int(3) > newest_.row) newest_ = {.row = rows.Int(3), .min_step = min_step};
    budget.TakeEntry();
    if (rows.Int(2) >= segment.from) MUSTER_RETURN_IF_ERROR(ReadRow(db, row_id_, budget));
  }
  return false;
}

absl::Status SeriesScan::ReadRow(SqliteDatabase& db, int64_t id, TurnBudget& budget) {
  SqliteStatement select = db.Prepare(level_ == 0 ? "SELECT packed FROM points WHERE id = ?"
                                                  : "SELECT packed FROM rollups WHERE id = ?");
  select.Bind(id);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  if (!has_row) return absl::OkStatus();
  const std::string packed = select.Text(0);
  budget.TakeRow(packed.size());
  std::vector<PackedPoint> points;
  MUSTER_RETURN_IF_ERROR(UnpackPoints(packed, name_id_, points));
  const Segment& segment = segments_[segment_];
  for (const PackedPoint& point : points) {
    if (point.step >= segment.from && point.step < segment.to) {
      found_.insert_or_assign(point.step, point);
    }
  }
  return absl::OkStatus();
}

void SeriesScan::GiveBelow(int64_t step, const Take& take) {
  while (!found_.empty() && found_.begin()->first < step) {
    const auto first = found_.begin();
    // What lower levels have of a step that was passed already is late.
    if (first->first > given_) {
      refused_ = !take(first->second);
      if (refused_) return;
      given_ = first->first;
    }
    found_.erase(first);
  }
}

int64_t SeriesScan::NextFrom() const {
  return segment_ + 1 < segments_.size() ? segments_[segment_ + 1].from : Segment::kEnd;
}

}  // namespace muster::controller
