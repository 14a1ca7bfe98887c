#include "controller/access/audit_store.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "controller/access/access_schema.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

class AuditStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open(uint64_t max_bytes = 1 << 30) {
    store_.reset();
    db_.reset();
    auto db = SqliteDatabase::Open({.path = dir_ / "access.db"}, AccessMigrations());
    ASSERT_OK(db);
    db_ = *std::move(db);
    store_ = std::make_unique<AuditStore>(*db_, max_bytes);
    ASSERT_OK(store_->Load());
  }
  void Write(int rows, const std::string& outcome = "OK") {
    ASSERT_OK(db_->Begin());
    for (int i = 0; i < rows; ++i) {
      ASSERT_OK(store_->Append({.time = absl::FromUnixSeconds(1000 + i),
                                .user = i % 2 == 0 ? "anna" : "bob",
                                .method = "JobService/Submit",
                                .project = "vision",
                                .object = absl::StrCat("job ", i),
                                .outcome = outcome}));
    }
    ASSERT_OK(db_->Commit());
    store_->Settle(true);
  }
  absl::StatusOr<AuditVerdict> Verify(const AuditPoint& known = {}) {
    AuditWalk walk;
    while (!walk.done) {
      if (absl::Status status = store_->Verify(known, walk); !status.ok()) return status;
    }
    return walk.verdict;
  }
  // As somebody would who has the file.
  void Tamper(const char* sql) {
    ASSERT_OK(db_->Prepare("DROP TRIGGER IF EXISTS audit_is_not_changed").Run());
    ASSERT_OK(db_->Prepare("DROP TRIGGER IF EXISTS audit_is_not_shortened").Run());
    ASSERT_OK(db_->Prepare(sql).Run());
  }

  testing::TempDir dir_;
  std::unique_ptr<SqliteDatabase> db_;
  std::unique_ptr<AuditStore> store_;
};

TEST_F(AuditStoreTest, WhatWasWrittenIsReadFromTheNewestOn) {
  Write(10);
  Write(1, "PERMISSION_DENIED");
  Open();
  ASSERT_OK_AND_ASSIGN(AuditPage page, store_->Read({.most = 4}));
  ASSERT_EQ(page.rows.size(), 4u);
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.rows[0].seq, 11u);
  ASSERT_OK_AND_ASSIGN(page, store_->Read({.below = 8, .most = 100}));
  EXPECT_EQ(page.rows.size(), 7u);
  EXPECT_FALSE(page.more);
  ASSERT_OK_AND_ASSIGN(page, store_->Read({.denied = true}));
  EXPECT_EQ(page.rows.size(), 1u);
  ASSERT_OK_AND_ASSIGN(page, store_->Read({.user = "bob"}));
  EXPECT_EQ(page.rows.size(), 5u);
  ASSERT_OK_AND_ASSIGN(page, store_->Read({.since = absl::FromUnixSeconds(1005),
                                           .until = absl::FromUnixSeconds(1007)}));
  EXPECT_EQ(page.rows.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const AuditVerdict verdict, Verify());
  EXPECT_EQ(verdict.rows, 11u);
  EXPECT_EQ(verdict.end.seq, 11u);
}

TEST_F(AuditStoreTest, RowsAreNeitherChangedNorTakenOut) {
  Write(3);
  EXPECT_THAT(db_->Prepare("UPDATE audit SET user = 'x' WHERE seq = 2").Run(), Not(IsOk()));
  EXPECT_THAT(db_->Prepare("DELETE FROM audit WHERE seq = 2").Run(), Not(IsOk()));
  EXPECT_OK(Verify());
}

TEST_F(AuditStoreTest, AChangedRowIsNamed) {
  Write(5000);
  Tamper("UPDATE audit SET user = 'eve' WHERE seq = 4321");
  EXPECT_THAT(Verify(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("audit row 4321 (")));
}

TEST_F(AuditStoreTest, AMissingRowIsNamed) {
  Write(10);
  Tamper("DELETE FROM audit WHERE seq = 6");
  EXPECT_THAT(Verify(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("audit row 6: it is")));
}

TEST_F(AuditStoreTest, RowsThatThisProcessWroteCannotGoFromTheEnd) {
  Write(10);
  Tamper("DELETE FROM audit WHERE seq > 8");
  EXPECT_THAT(Verify(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("audit row 9: it was")));
}

// Who makes the whole chain anew, or cuts its end, cannot make what was told before.
TEST_F(AuditStoreTest, ARecordThatWasMadeAnewDiffersFromWhatWasTold) {
  Write(10);
  ASSERT_OK_AND_ASSIGN(const AuditVerdict told, Verify());
  EXPECT_OK(Verify(told.end));
  Tamper("DELETE FROM audit WHERE seq > 8");
  Open();
  EXPECT_OK(Verify());
  EXPECT_THAT(Verify(told.end),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 10: was told")));
  Write(2, "PERMISSION_DENIED");
  EXPECT_OK(Verify());
  EXPECT_THAT(Verify(told.end), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("made anew")));
}

TEST_F(AuditStoreTest, TheOldestGoAndTheRestIsStillWhole) {
  Open(/*max_bytes=*/100'000);
  for (int i = 0; i < 40; ++i) {
    Write(100);
    ASSERT_OK(store_->Trim());
  }
  ASSERT_OK_AND_ASSIGN(const AuditVerdict verdict, Verify());
  EXPECT_EQ(verdict.end.seq, 4000u);
  EXPECT_GT(verdict.begin.seq, 3000u);
  EXPECT_GT(verdict.rows, 300u);
  EXPECT_LT(verdict.rows, 1000u);
  Open(/*max_bytes=*/100'000);
  EXPECT_OK(Verify());
  Tamper("DELETE FROM audit WHERE seq = (SELECT MIN(seq) FROM audit)");
  EXPECT_THAT(Verify(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(AuditStoreTest, WhatWasRolledBackIsNoPartOfTheChain) {
  Write(2);
  ASSERT_OK(db_->Begin());
  ASSERT_OK(store_->Append({.time = absl::UnixEpoch(), .user = "anna", .outcome = "OK"}));
  db_->Rollback();
  store_->Settle(false);
  Write(1);
  ASSERT_OK_AND_ASSIGN(const AuditVerdict verdict, Verify());
  EXPECT_EQ(verdict.rows, 3u);
}

TEST_F(AuditStoreTest, TextsFromOutsideAreCut) {
  ASSERT_OK(db_->Begin());
  ASSERT_OK(store_->Append({.time = absl::UnixEpoch(),
                            .user = std::string(1 << 20, 'u'),
                            .object = std::string("a\0b\xff", 4) + std::string(1 << 20, 'o'),
                            .outcome = "OK",
                            .detail = std::string(1 << 20, 'd')}));
  ASSERT_OK(db_->Commit());
  store_->Settle(true);
  ASSERT_OK_AND_ASSIGN(const AuditPage page, store_->Read({}));
  EXPECT_LE(page.rows[0].entry.user.size() + page.rows[0].entry.object.size() +
                page.rows[0].entry.detail.size(),
            900u);
  EXPECT_OK(Verify());
  Open();
  EXPECT_OK(Verify());
}

// What was told of a row that was dropped since is held against where the record begins, or cannot
// be held against anything.
TEST_F(AuditStoreTest, ARowThatWasDroppedProvesNothing) {
  Open(/*max_bytes=*/100'000);
  for (int i = 0; i < 20; ++i) {
    Write(100);
    ASSERT_OK(store_->Trim());
  }
  ASSERT_OK_AND_ASSIGN(const AuditVerdict verdict, Verify());
  const AuditPoint begin = verdict.begin;
  ASSERT_GT(begin.seq, 1u);
  EXPECT_OK(Verify(begin));
  const std::string other(64, '0');
  EXPECT_THAT(Verify({.seq = begin.seq, .hash = other}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("made anew")));
  EXPECT_THAT(Verify({.seq = begin.seq - 1, .hash = other}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("was dropped")));
}

// Rows go while a walk is under way: those that it has seen were held against, the others were not.
TEST_F(AuditStoreTest, ARowThatIsDroppedDuringTheWalkProvesNothing) {
  Write(3 * AuditStore::kStep);
  ASSERT_OK_AND_ASSIGN(const AuditPage page,
                       store_->Read({.below = 2 * AuditStore::kStep, .most = 1}));
  const AuditPoint known = {.seq = page.rows[0].seq, .hash = page.rows[0].hash};
  const auto drop_most = [&] {
    store_ = std::make_unique<AuditStore>(*db_, /*max_bytes=*/10'000);
    ASSERT_OK(store_->Load());
    for (int i = 0; i < 3; ++i) ASSERT_OK(store_->Trim());
  };
  AuditWalk walk;
  ASSERT_OK(store_->Verify(known, walk));
  AuditWalk seen = walk;
  ASSERT_OK(store_->Verify(known, seen));
  ASSERT_FALSE(seen.done);
  drop_most();
  EXPECT_THAT(store_->Verify(known, walk), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(store_->Verify(known, seen));
}

}  // namespace
}  // namespace muster::controller
