#include "controller/store/metrics/points/rollup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/metrics/metrics_schema.h"
#include "controller/store/metrics/metrics_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::TempDir;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr RankKey kRank{1, 1, 1, 0};
constexpr uint64_t kLoss = 1;
constexpr uint64_t kValidation = 2;
constexpr int64_t kStepsARow = 8;
constexpr int64_t kRowsAValidation = 40;

double LossAt(int64_t step) { return std::sin(static_cast<double>(step)); }

class RollupTest : public ::testing::Test {
 protected:
  // A metrics.db with so many rows of one rank: eight steps with a loss each, now and then a
  // validation. Rolls up as it goes; starts anew, as after a crash, before the row `restart_at`.
  void Fill(const std::string& name, int64_t rows, int64_t restart_at = -1,
            uint64_t rollup_bytes = 1 << 30) {
    path_ = dir_ / name;
    auto opened = SqliteDatabase::Open({.path = path_}, kMetricsMigrations);
    ASSERT_OK(opened);
    SqliteDatabase& db = **opened;
    RollupBudget budget(db);
    budget.SetBytes(rollup_bytes);
    Rollup rollup(db, budget);
    IngestCounts counts;
    ASSERT_OK(db.Begin());
    for (const char* sql :
         {"INSERT INTO metric_names(id, name) VALUES(1, 'loss'), (2, 'validation_loss')",
          "INSERT INTO known_jobs(job) VALUES(1)",
          "INSERT INTO job_names(job, rank, name_id) VALUES(1, 0, 1), (1, 0, 2)",
          "INSERT INTO rank_marks(job, attempt, generation, rank, last_seq, first_step)"
          " VALUES(1, 1, 1, 0, 1, 0)"}) {
      ASSERT_OK(db.Prepare(sql).Run());
    }
    for (int64_t row = 0; row < rows; ++row) {
      PointsByName points;
      const int64_t first = row * kStepsARow;
      for (int64_t step = first; step < first + kStepsARow; ++step) {
        points[kLoss].push_back({step, step, LossAt(step)});
      }
      if (row % kRowsAValidation == 0) points[kValidation].push_back({first, first, 0.5});
      SqliteStatement insert = db.Prepare(
          "INSERT INTO points(job, rank, attempt, generation, min_step, max_step, first_seq,"
          " last_seq, count, packed) VALUES(1, 0, 1, 1, ?, ?, 1, 1, 8, ?) RETURNING id");
      insert.Bind(first).Bind(first + kStepsARow - 1).BindBlob(PackPoints(points));
      ASSERT_OK(insert.Step().status());
      if (row == restart_at) rollup.Forget();
      ASSERT_OK(rollup.NoteRow(kRank, insert.Int(0), counts));
      budget.Commit();
    }
    ASSERT_OK(db.Commit());
  }
  void Run(const char* sql) {
    auto opened = SqliteDatabase::Open({.path = path_}, kMetricsMigrations);
    ASSERT_OK(opened);
    ASSERT_OK((*opened)->Prepare(sql).Run());
  }
  std::vector<std::string> Rollups() {
    auto opened = SqliteDatabase::Open({.path = path_}, kMetricsMigrations);
    EXPECT_OK(opened);
    SqliteStatement row = (*opened)->Prepare(
        "SELECT level || ':' || min_step || '-' || max_step || '/' || last_row || '=' || "
        "hex(packed)"
        " FROM rollups ORDER BY id");
    std::vector<std::string> rows;
    while (*row.Step()) rows.push_back(row.Text(0));
    return rows;
  }
  // One series, thinned; counts the turns.
  std::vector<Point> Plot(const char* metric, uint32_t max_points, int64_t from = 0,
                          int64_t to = 0) {
    auto store = MetricsStore::Open(path_);
    EXPECT_OK(store);
    PointReading reading({.job_id = 1,
                          .names = {metric},
                          .from_step = from,
                          .to_step = to,
                          .page_size = 10'000,
                          .max_points = max_points});
    for (turns_ = 1;; ++turns_) {
      const absl::StatusOr<bool> whole = (*store)->ReadOn(reading);
      EXPECT_OK(whole);
      if (!whole.ok() || *whole) return reading.TakePage().points;
    }
  }
  static void ExpectEvenAndTrue(const std::vector<Point>& points) {
    ASSERT_GT(points.size(), 2u);
    const int64_t mean =
        (points.back().step - points.front().step) / static_cast<int64_t>(points.size());
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(points[i].value, LossAt(points[i].step));
      if (i == 0) continue;
      EXPECT_LT(points[i - 1].step, points[i].step);
      EXPECT_LT(points[i].step - points[i - 1].step, 4 * mean) << points[i].step;
    }
  }

  TempDir dir_;
  std::string path_;
  int turns_ = 0;
  uint64_t next_seq_ = 2;
};

constexpr int64_t kManyRows = 3 * 64 * 64 + 70;
constexpr int64_t kLastStep = kManyRows * kStepsARow - 1;

TEST_F(RollupTest, APlotOfALongSeriesReadsFewRows) {
  Fill("metrics.db", kManyRows);
  const std::vector<Point> points = Plot("loss", 500);
  ASSERT_THAT(points, SizeIs(500));
  EXPECT_EQ(points.front().step, 0);
  EXPECT_EQ(points.back().step, kLastStep);
  ExpectEvenAndTrue(points);
  EXPECT_EQ(turns_, 1);
  const std::vector<Point> few = Plot("loss", 20);
  ASSERT_THAT(few, SizeIs(20));
  EXPECT_EQ(few.front().step, 0);
  EXPECT_EQ(few.back().step, kLastStep);
  ExpectEvenAndTrue(few);
}

TEST_F(RollupTest, APartOfIsReadAsFineAsItIs) {
  Fill("metrics.db", kManyRows);
  const std::vector<Point> points = Plot("loss", 500, 40'000, 40'600);
  ASSERT_THAT(points, SizeIs(500));
  EXPECT_EQ(points.front().step, 40'000);
  EXPECT_EQ(points.back().step, 40'600);
  ExpectEvenAndTrue(points);
}

TEST_F(RollupTest, WhatIsReportedSeldomIsThereWhole) {
  Fill("metrics.db", kManyRows);
  const std::vector<Point> points = Plot("validation_loss", 1000);
  EXPECT_THAT(points, SizeIs((kManyRows + kRowsAValidation - 1) / kRowsAValidation));
}

TEST_F(RollupTest, WhatTheBudgetOfPointsDroppedIsStillShown) {
  Fill("metrics.db", kManyRows);
  Run("DELETE FROM points WHERE id < 9000");
  const std::vector<Point> points = Plot("loss", 500);
  ASSERT_THAT(points, SizeIs(500));
  EXPECT_EQ(points.front().step, 0);
  ExpectEvenAndTrue(points);
}

TEST_F(RollupTest, WhereTheLowestLevelHasItsBudgetAHigherOneReachesBack) {
  Fill("metrics.db", kManyRows, /*restart_at=*/-1, /*rollup_bytes=*/60'000);
  std::vector<Point> points = Plot("loss", 500);
  EXPECT_EQ(points.front().step, 0);
  EXPECT_EQ(points.back().step, kLastStep);
  EXPECT_GT(points.size(), 90u);
  // Nothing is dropped that no higher level covers.
  points = Plot("loss", 90);
  ExpectEvenAndTrue(points);
}

TEST_F(RollupTest, TheBudgetHoldsHoweverSmallItIs) {
  Fill("metrics.db", kManyRows, /*restart_at=*/-1, /*rollup_bytes=*/2'000);
  size_t bytes = 0;
  for (const std::string& row : Rollups()) bytes += row.size() / 2;
  EXPECT_LT(bytes, 3'000u);
  EXPECT_EQ(Plot("loss", 500).back().step, kLastStep);
}

TEST_F(RollupTest, ARestartGoesOnWhereItWas) {
  Fill("without.db", kManyRows);
  const std::vector<std::string> without = Rollups();
  ASSERT_THAT(without, SizeIs(193 + 3));
  for (const int64_t at : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{4500}}) {
    Fill(absl::StrCat("restart-", at, ".db"), kManyRows, at);
    EXPECT_EQ(Rollups(), without) << at;
  }
}

// A musterd that knew no rollups has left its rows. They are taken a few at a time, as finely.
TEST_F(RollupTest, RowsOfAnOlderMusterdAreRolledUpBitByBit) {
  Fill("with.db", kManyRows);
  const std::vector<std::string> with = Rollups();
  Fill("without.db", kManyRows - 120);
  Run("DELETE FROM rollups");
  const auto add = [this](int rows) {
    auto store = MetricsStore::Open(path_);
    ASSERT_OK(store);
    IngestCounts counts;
    for (int i = 0; i < rows; ++i, ++next_seq_) {
      const auto step = static_cast<int64_t>((kManyRows + next_seq_) * kStepsARow);
      const MetricsBatch batch{{{kRank, next_seq_, {{"loss", step, step, LossAt(step)}}}}, {}, {}};
      ASSERT_OK((*store)->Append({&batch}, counts));
    }
  };
  add(1);
  EXPECT_THAT(Rollups(), SizeIs(4));
  std::vector<Point> points = Plot("loss", 500);
  ASSERT_THAT(points, SizeIs(500));
  EXPECT_EQ(points.front().step, 0);
  add(60);
  const std::vector<std::string> caught_up = Rollups();
  ASSERT_GE(caught_up.size(), 190u);
  EXPECT_TRUE(std::equal(caught_up.begin(), caught_up.begin() + 190, with.begin()));
  points = Plot("loss", 500);
  ASSERT_THAT(points, SizeIs(500));
  EXPECT_EQ(points.front().step, 0);
}

TEST_F(RollupTest, ADamagedRowIsLeftOut) {
  Fill("metrics.db", 60);
  Run("UPDATE points SET packed = x'ffffffff' WHERE id = 7");
  auto store = MetricsStore::Open(path_);
  ASSERT_OK(store);
  IngestCounts counts;
  for (uint64_t seq = 2; seq < 12; ++seq) {
    const auto step = static_cast<int64_t>(1000 + seq);
    const MetricsBatch batch{{{kRank, seq, {{"loss", step, step, LossAt(step)}}}}, {}, {}};
    ASSERT_OK((*store)->Append({&batch}, counts));
  }
  store->reset();
  EXPECT_THAT(Rollups(), SizeIs(1));
}

TEST_F(RollupTest, GoesWithItsJob) {
  Fill("metrics.db", 70);
  ASSERT_THAT(Rollups(), SizeIs(1));
  {
    auto store = MetricsStore::Open(path_);
    ASSERT_OK(store);
    while (*(*store)->RemoveSome(1, /*forgotten=*/false)) {
    }
  }
  EXPECT_THAT(Rollups(), IsEmpty());
  EXPECT_THAT(Plot("loss", 500), IsEmpty());
}

// Through the store: each transaction is a row.
TEST_F(RollupTest, TheStoreRollsUpWhatItTakesIn) {
  path_ = dir_ / "metrics.db";
  constexpr uint64_t kRecords = 130;
  {
    auto store = MetricsStore::Open(path_);
    ASSERT_OK(store);
    IngestCounts counts;
    for (uint64_t seq = 1; seq <= kRecords; ++seq) {
      const int64_t step = static_cast<int64_t>(seq) - 1;
      const MetricsBatch batch{{{kRank, seq, {{"loss", step, step, LossAt(step)}}}}, {}, {}};
      ASSERT_OK((*store)->Append({&batch}, counts));
    }
  }
  EXPECT_THAT(Rollups(), SizeIs(2));
  const std::vector<Point> points = Plot("loss", 8);
  ASSERT_THAT(points, SizeIs(8));
  EXPECT_EQ(points.front().step, 0);
  EXPECT_EQ(points.back().step, static_cast<int64_t>(kRecords) - 1);
  ExpectEvenAndTrue(points);
}

}  // namespace
}  // namespace muster::controller
