#include "controller/store/metrics/job_budget.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::TempDir;

// Drops 10 bytes at a time, of which the table knows nothing.
class CountedBudget final : public JobBudget {
 public:
  explicit CountedBudget(SqliteDatabase& db)
      : JobBudget(db, /*bytes=*/200, "SELECT bytes FROM stored WHERE job = ?") {}

  int drops = 0;

 private:
  absl::StatusOr<uint64_t> DropSome(uint64_t, IngestCounts&) override {
    ++drops;
    return 10;
  }
};

class JobBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto db = SqliteDatabase::Open(
        {.path = dir_ / "db"},
        {"CREATE TABLE stored(job INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT"});
    ASSERT_OK(db);
    db_ = *std::move(db);
    budget_ = std::make_unique<CountedBudget>(*db_);
  }
  void SetStored(uint64_t bytes) {
    SqliteStatement set = db_->Prepare("INSERT OR REPLACE INTO stored VALUES(1, ?)");
    set.Bind(bytes);
    ASSERT_OK(set.Run());
  }
  // How often something was dropped for it.
  int DropsFor(uint64_t bytes) {
    budget_->drops = 0;
    EXPECT_OK(budget_->Add(1, bytes, counts_));
    return budget_->drops;
  }

  TempDir dir_;
  std::unique_ptr<SqliteDatabase> db_;
  std::unique_ptr<CountedBudget> budget_;
  IngestCounts counts_;
};

TEST_F(JobBudgetTest, WhatIsStoredCounts) {
  SetStored(190);
  EXPECT_EQ(DropsFor(10), 0);
  EXPECT_EQ(DropsFor(1), 3) << "an eighth is free then";
}

// On a full disk each attempt is taken back, again and again.
TEST_F(JobBudgetTest, AfterARollbackItIsAsBeforeAndNotCountedAnew) {
  SetStored(100);
  EXPECT_EQ(DropsFor(100), 0);
  budget_->Rollback();
  SetStored(1000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(DropsFor(60), 0);
    EXPECT_EQ(DropsFor(40), 0);
    budget_->Rollback();
  }
  EXPECT_EQ(DropsFor(100), 0);
  budget_->Commit();
  EXPECT_EQ(DropsFor(1), 3);
  budget_->Rollback();
  EXPECT_EQ(DropsFor(1), 3) << "what was committed stays";
}

// A budget that was lowered had a gibibyte dropped in one transaction.
TEST_F(JobBudgetTest, WhatIsFarBeyondItGoesOverManyTransactions) {
  SetStored(2000);
  std::vector<int> drops;
  for (int i = 0; i < 5; ++i) {
    drops.push_back(DropsFor(0));
    EXPECT_TRUE(drops.back() < 64 || DropsFor(0) == 0) << "a transaction has many rows";
    budget_->Commit();
  }
  EXPECT_EQ(drops, (std::vector<int>{64, 64, 55, 0, 0}));
}

TEST_F(JobBudgetTest, WhatWasRemovedIsCountedAnew) {
  SetStored(200);
  EXPECT_EQ(DropsFor(0), 0);
  budget_->Commit();
  SetStored(0);
  budget_->Forget(1);
  EXPECT_EQ(DropsFor(200), 0);
}

}  // namespace
}  // namespace muster::controller
