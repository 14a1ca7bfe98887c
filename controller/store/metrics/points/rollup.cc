#include "controller/store/metrics/points/rollup.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "controller/store/metrics/points/point_thinner.h"

namespace muster::controller {
namespace {

constexpr size_t kMostWaiting = 65'536;  // ranks
constexpr int kMostAtOnce = 4;           // rows of level 1 that one row of points makes

// One point a step, the one that was reported last, and at most kPoints of these.
std::vector<PackedPoint> Thin(std::vector<PackedPoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const PackedPoint& a, const PackedPoint& b) { return a.step < b.step; });
  PointThinner thinner(Rollup::kPoints);
  for (size_t i = 0; i < points.size(); ++i) {
    const bool is_last = i + 1 == points.size() || points[i + 1].step != points[i].step;
    if (is_last) thinner.Add(points[i]);
  }
  return thinner.Choose();
}

}  // namespace

absl::StatusOr<uint64_t> RollupBudget::DropSome(uint64_t job_id, IngestCounts&) {
  uint64_t bytes = 0;
  for (const char* sql :
       {"DELETE FROM rollups WHERE id IN (SELECT id FROM rollups r WHERE job = ? AND last_row <="
        " (SELECT max(last_row) FROM rollups WHERE job = r.job AND rank = r.rank AND"
        "  attempt = r.attempt AND generation = r.generation AND level = r.level + 1)"
        " ORDER BY id LIMIT 64) RETURNING length(packed)",
        "DELETE FROM rollups WHERE id IN"
        " (SELECT id FROM rollups WHERE job = ? ORDER BY id LIMIT 64) RETURNING length(packed)"}) {
    SqliteStatement drop = db().Prepare(sql);
    drop.Bind(job_id);
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, drop.Step());
      if (!has_row) break;
      bytes += static_cast<uint64_t>(drop.Int(0));
    }
    if (bytes > 0) break;
  }
  return bytes;
}

absl::Status Rollup::NoteRow(const RankKey& key, int64_t id, IngestCounts& counts) {
  if (waiting_.size() > kMostWaiting) waiting_.clear();
  MUSTER_ASSIGN_OR_RETURN(Waiting * waiting, FindWaiting(key));
  // The first time, what was read of the database has it already.
  if (std::vector<int64_t>& rows = waiting->front(); rows.empty() || rows.back() < id) {
    rows.push_back(id);
  }
  // More than one at a time is due only where an older musterd has left many rows.
  for (int made = 0; made < kMostAtOnce && waiting->front().size() >= kRows; ++made) {
    MUSTER_RETURN_IF_ERROR(RollUpFirst(key, 0, *waiting, counts));
    for (size_t level = 1; (*waiting)[level].size() >= kRows; ++level) {
      MUSTER_RETURN_IF_ERROR(RollUpFirst(key, level, *waiting, counts));
    }
  }
  return absl::OkStatus();
}

absl::Status Rollup::RollUpFirst(const RankKey& key, size_t level, Waiting& waiting,
                                 IngestCounts& counts) {
  if (waiting.size() < level + 2) waiting.resize(level + 2);
  std::vector<int64_t>& rows = waiting[level];
  const std::vector<int64_t> first(rows.begin(), rows.begin() + kRows);
  MUSTER_ASSIGN_OR_RETURN(const int64_t id, RollUp(key, static_cast<int>(level), first, counts));
  rows.erase(rows.begin(), rows.begin() + kRows);
  waiting[level + 1].push_back(id);
  return absl::OkStatus();
}

absl::StatusOr<Rollup::Waiting*> Rollup::FindWaiting(const RankKey& key) {
  const auto known = waiting_.find(key);
  if (known != waiting_.end()) return &known->second;
  const auto bind = [&key](SqliteStatement& select) -> SqliteStatement& {
    return select.Bind(key.job_id).Bind(key.rank).Bind(key.attempt).Bind(key.generation);
  };
  struct Covered {
    int64_t row = 0;       // the newest row of points that a level covers,
    int64_t min_step = 0;  // and where what covers it begins: later rows are of later steps
  };
  std::vector<Covered> covered;
  {
    SqliteStatement select = db_.Prepare(
        "SELECT level, max(last_row), min_step FROM rollups WHERE job = ? AND rank = ? AND"
        " attempt = ? AND generation = ? GROUP BY level ORDER BY level");
    bind(select);
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
      if (!has_row) break;
      covered.resize(static_cast<size_t>(select.Int(0)));
      covered.back() = {.row = select.Int(1), .min_step = select.Int(2)};
    }
  }
  Waiting waiting(covered.size() + 1);
  for (size_t level = 0; level < waiting.size(); ++level) {
    SqliteStatement select = db_.Prepare(
        level == 0
            ? "SELECT id FROM points INDEXED BY points_by_step WHERE job = ? AND rank = ? AND"
              " attempt = ? AND generation = ? AND min_step >= ? AND id > ? ORDER BY id"
            : "SELECT id FROM rollups INDEXED BY rollups_by_step WHERE job = ? AND rank = ?"
              " AND attempt = ? AND generation = ? AND min_step >= ? AND last_row > ? AND"
              " level = ? ORDER BY id");
    const Covered from = level < covered.size() ? covered[level] : Covered();
    bind(select).Bind(from.min_step).Bind(from.row);
    if (level > 0) select.Bind(static_cast<uint64_t>(level));
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
      if (!has_row) break;
      waiting[level].push_back(select.Int(0));
    }
  }
  return &waiting_.emplace(key, std::move(waiting)).first->second;
}

absl::StatusOr<int64_t> Rollup::RollUp(const RankKey& key, int level,
                                       const std::vector<int64_t>& rows, IngestCounts& counts) {
  PointsByName points;
  int64_t min_step = std::numeric_limits<int64_t>::max();
  int64_t max_step = 0;
  int64_t last_row = rows.back();
  for (int64_t id : rows) {
    SqliteStatement select =
        db_.Prepare(level == 0 ? "SELECT min_step, max_step, id, packed FROM points WHERE id = ?"
                               : "SELECT min_step, max_step, last_row, packed FROM rollups"
                                 " WHERE id = ?");
    select.Bind(id);
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) continue;  // the budget has dropped it
    min_step = std::min(min_step, select.Int(0));
    max_step = std::max(max_step, select.Int(1));
    last_row = select.Int(2);
    // A plot can do without one row; the whole database need not be set aside for it.
    if (absl::Status status = UnpackAll(select.Text(3), points); !status.ok()) {
      Log(LogLevel::kError, "points_not_rolled_up",
          {{"job", key.job_id}, {"rank", key.rank}, {"error", status.ToString()}});
    }
  }
  for (auto& [name, series] : points) series = Thin(std::move(series));
  const std::string packed = PackPoints(points);
  MUSTER_RETURN_IF_ERROR(budget_.Add(key.job_id, packed.size(), counts));
  SqliteStatement insert = db_.Prepare(
      "INSERT INTO rollups(job, rank, attempt, generation, level, min_step, max_step, last_row,"
      " packed) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
  insert.Bind(key.job_id).Bind(key.rank).Bind(key.attempt).Bind(key.generation).Bind(level + 1);
  insert.Bind(points.empty() ? 0 : min_step).Bind(max_step).Bind(last_row).BindBlob(packed);
  MUSTER_RETURN_IF_ERROR(insert.Step().status());
  return insert.Int(0);
}

absl::StatusOr<int> RollupLevelFor(SqliteDatabase& db, uint64_t job_id, uint32_t rank, int64_t from,
                                   int64_t to, size_t max_points) {
  struct Level {
    int level = 0;
    size_t rows = 0;
    int64_t min_step = 0;  // of what it has of these steps
  };
  std::vector<Level> levels(1);  // ascending; the first one is the points themselves
  {
    SqliteStatement select = db.Prepare(
        "SELECT level, count(*), min(min_step) FROM rollups WHERE job = ? AND rank = ? AND"
        " min_step < ? AND max_step >= ? GROUP BY level ORDER BY level");
    select.Bind(job_id).Bind(rank).Bind(to).Bind(from);
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
      if (!has_row) break;
      levels.push_back({.level = static_cast<int>(select.Int(0)),
                        .rows = static_cast<size_t>(select.Int(1)),
                        .min_step = std::max(select.Int(2), from)});
    }
  }
  size_t chosen = 0;
  for (size_t i = 1; i < levels.size(); ++i) {
    if (levels[i].rows * Rollup::kPoints >= max_points) chosen = i;
  }
  if (chosen == 0 && levels.size() > 1) {
    SqliteStatement select = db.Prepare(
        "SELECT min(min_step) FROM points WHERE job = ? AND rank = ? AND min_step < ? AND"
        " max_step >= ?");
    select.Bind(job_id).Bind(rank).Bind(to).Bind(from);
    MUSTER_RETURN_IF_ERROR(select.Step().status());
    levels[0].min_step = select.IsNull(0) ? to : std::max(select.Int(0), from);
  }
  for (size_t i = chosen + 1; i < levels.size(); ++i) {
    if (levels[i].min_step < levels[chosen].min_step) chosen = i;
  }
  return levels[chosen].level;
}

}  // namespace muster::controller
