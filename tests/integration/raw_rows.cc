#include "tests/integration/raw_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/store/metrics/metrics_schema.h"
#include "controller/store/metrics/points/point_codec.h"
#include "controller/store/sqlite.h"

namespace muster::testing {
namespace {

using controller::PackedPoint;
using controller::SqliteDatabase;
using controller::SqliteStatement;

std::string Name(const RankLife& life) {
  return absl::StrCat("a", life.attempt, ".g", life.generation, ".r", life.rank);
}

// Steps through all rows; a statement that breaks is a failure.
template <typename Row>
void ForEach(SqliteStatement statement, const Row& row) {
  while (true) {
    const auto has_row = statement.Step();
    ASSERT_TRUE(has_row.ok()) << has_row.status();
    if (!*has_row) return;
    row(statement);
  }
}

RankLife LifeAt(const SqliteStatement& row) {
  return {static_cast<uint32_t>(row.Int(0)), static_cast<uint32_t>(row.Int(1)),
          static_cast<uint32_t>(row.Int(2))};
}

PointRow Unpack(const std::map<uint64_t, std::string>& names, const SqliteStatement& row) {
  PointRow points{.first_seq = static_cast<uint64_t>(row.Int(3)),
                  .last_seq = static_cast<uint64_t>(row.Int(4))};
  const std::string packed = row.Text(6);
  int64_t count = 0;
  for (const auto& [id, name] : names) {
    std::vector<PackedPoint> of_name;
    const absl::Status unpacked = controller::UnpackPoints(packed, id, of_name);
    EXPECT_TRUE(unpacked.ok()) << unpacked;
    for (const PackedPoint& point : of_name) points.steps[name].push_back(point.step);
    count += static_cast<int64_t>(of_name.size());
  }
  EXPECT_EQ(count, row.Int(5)) << "the row says another number of points than it holds";
  return points;
}

}  // namespace

RawRows ReadRawRows(const std::string& metrics_db, uint64_t job) {
  RawRows rows;
  auto db = SqliteDatabase::Open({.path = metrics_db}, controller::kMetricsMigrations);
  EXPECT_TRUE(db.ok()) << db.status();
  if (!db.ok()) return rows;
  std::map<uint64_t, std::string> names;
  ForEach((*db)->Prepare("SELECT id, name FROM metric_names"), [&](const SqliteStatement& row) {
    names[static_cast<uint64_t>(row.Int(0))] = row.Text(1);
  });
  SqliteStatement points = (*db)->Prepare(
      "SELECT attempt, generation, rank, first_seq, last_seq, count, packed FROM points "
      "WHERE job = ? ORDER BY id");
  points.Bind(job);
  ForEach(std::move(points), [&](const SqliteStatement& row) {
    rows.points[LifeAt(row)].push_back(Unpack(names, row));
  });
  SqliteStatement marks =
      (*db)->Prepare("SELECT attempt, generation, rank, last_seq FROM rank_marks WHERE job = ?");
  marks.Bind(job);
  ForEach(std::move(marks), [&](const SqliteStatement& row) {
    rows.last_seq[LifeAt(row)] = static_cast<uint64_t>(row.Int(3));
  });
  SqliteStatement logs = (*db)->Prepare(
      "SELECT attempt, generation, rank, is_stderr, offset, text FROM logs WHERE job = ? "
      "ORDER BY id");
  logs.Bind(job);
  ForEach(std::move(logs), [&](const SqliteStatement& row) {
    rows.logs[{LifeAt(row), row.Int(3) != 0}].push_back(
        {static_cast<uint64_t>(row.Int(4)), row.Text(5)});
  });
  SqliteStatement gaps = (*db)->Prepare("SELECT count(*) FROM gaps WHERE job = ?");
  gaps.Bind(job);
  ForEach(std::move(gaps),
          [&](const SqliteStatement& row) { rows.gaps = static_cast<uint64_t>(row.Int(0)); });
  return rows;
}

void ExpectEachRecordOnce(const RawRows& rows) {
  EXPECT_EQ(rows.gaps, 0u) << "something is noted as lost";
  for (const auto& [life, last_seq] : rows.last_seq) {
    const auto found = rows.points.find(life);
    ASSERT_NE(found, rows.points.end()) << Name(life) << " has a mark and no row";
    uint64_t next = 1;
    std::map<std::string, std::set<int64_t>> seen;
    for (const PointRow& row : found->second) {
      EXPECT_EQ(row.first_seq, next) << Name(life) << ": records lost, or stored twice";
      EXPECT_GE(row.last_seq, row.first_seq);
      next = row.last_seq + 1;
      for (const auto& [name, steps] : row.steps) {
        for (const int64_t step : steps) {
          EXPECT_TRUE(seen[name].insert(step).second)
              << Name(life) << ": " << name << " stands twice at step " << step;
        }
      }
    }
    EXPECT_EQ(next, last_seq + 1) << Name(life);
  }
  EXPECT_EQ(rows.points.size(), rows.last_seq.size()) << "rows without a mark";
}

std::string WholeText(const RawRows& rows, const RankLife& life, bool is_stderr) {
  std::string text;
  const auto found = rows.logs.find({life, is_stderr});
  if (found == rows.logs.end()) return text;
  for (const LogRow& row : found->second) {
    EXPECT_EQ(row.offset, text.size()) << Name(life) << ": text lost, or stored twice";
    text += row.text;
  }
  return text;
}

}  // namespace muster::testing
