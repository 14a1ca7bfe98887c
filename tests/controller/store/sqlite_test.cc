#include "controller/store/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/status_macros.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace {

// What statfs says that every folder lies on; 0: what is true.
unsigned long pretended_file_system = 0;

}  // namespace

// In the place of libc's, for the store linked into this program.
extern "C" int statfs(const char* path, struct statfs* info) noexcept {
  const long result = ::syscall(SYS_statfs, path, info);
  if (result == 0 && pretended_file_system != 0) {
    info->f_type = static_cast<decltype(info->f_type)>(pretended_file_system);
  }
  return static_cast<int>(result);
}

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

const std::vector<std::string> kMigrations = {"CREATE TABLE t (a INTEGER, b TEXT, c REAL) STRICT"};

class SqliteTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(
      const std::vector<std::string>& migrations = kMigrations, uint64_t max_bytes = 0) {
    return SqliteDatabase::Open({.path = path_, .max_bytes = max_bytes}, migrations);
  }
  static absl::Status Insert(SqliteDatabase& db, int64_t a, const std::string& b) {
    MUSTER_RETURN_IF_ERROR(db.Begin());
    if (absl::Status status =
            db.Prepare("INSERT INTO t VALUES (?, ?, ?)").Bind(a).Bind(b).Bind(0.5).Run();
        !status.ok()) {
      db.Rollback();
      return status;
    }
    return db.Commit();
  }
  static int64_t Count(SqliteDatabase& db) {
    SqliteStatement row = db.Prepare("SELECT count(*) FROM t");
    EXPECT_OK(row.Step());
    return row.Int(0);
  }

  testing::TempDir dir_;
  std::string path_ = dir_ / "test.db";
};

TEST_F(SqliteTest, ANetworkFileSystemIsRefused) {
  constexpr unsigned long kNfs = 0x6969;
  constexpr unsigned long kSmb2 = 0xfe534d42;
  constexpr unsigned long kCeph = 0x00c36400;
  constexpr unsigned long kExt4 = 0xef53;
  for (const unsigned long type : {kNfs, kSmb2, kCeph}) {
    pretended_file_system = type;
    EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("lies on a network file system")))
        << type;
    EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing was made there";
  }
  pretended_file_system = kExt4;
  EXPECT_OK(Open().status());
  pretended_file_system = 0;
}

TEST_F(SqliteTest, ValuesComeBackAsTheyWere) {
  auto db = Open();
  ASSERT_OK(db);
  ASSERT_OK(Insert(**db, -7, std::string("a\0b", 3)));
  ASSERT_OK((*db)
                ->Prepare("INSERT INTO t VALUES (?, ?, ?)")
                .Bind(uint64_t{1} << 62)
                .Bind("")
                .BindNull()
                .Run());
  SqliteStatement row = (*db)->Prepare("SELECT a, b, c FROM t ORDER BY a");
  EXPECT_TRUE(*row.Step());
  EXPECT_EQ(row.Int(0), -7);
  EXPECT_EQ(row.Text(1), std::string("a\0b", 3));
  EXPECT_EQ(row.Double(2), 0.5);
  EXPECT_TRUE(*row.Step());
  EXPECT_EQ(row.Int(0), int64_t{1} << 62);
  EXPECT_FALSE(row.IsNull(1));
  EXPECT_TRUE(row.IsNull(2));
  EXPECT_FALSE(*row.Step());
}

TEST_F(SqliteTest, OnlyOneProcessMayHoldIt) {
  auto db = Open();
  ASSERT_OK(db);
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
  db->reset();
  EXPECT_OK(Open());
}

TEST_F(SqliteTest, ThereIsNoSharedMemoryFile) {
  auto db = Open();
  ASSERT_OK(db);
  ASSERT_OK(Insert(**db, 1, ""));
  EXPECT_EQ(::access((path_ + "-wal").c_str(), F_OK), 0);
  EXPECT_NE(::access((path_ + "-shm").c_str(), F_OK), 0);
}

TEST_F(SqliteTest, WhatWasCommittedSurvivesAKill) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto db = Open();
    const bool stored = db.ok() && Insert(**db, 1, "kept").ok() && (*db)->Begin().ok() &&
                        (*db)->Prepare("INSERT INTO t VALUES (2, 'lost', 0)").Run().ok();
    if (!stored) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto db = Open();
  ASSERT_OK(db);
  EXPECT_EQ(Count(**db), 1);
  EXPECT_OK((*db)->CheckIntegrity());
}

TEST_F(SqliteTest, AFullDatabaseChangesNothingAndWorksAgainWithRoom) {
  auto db = Open(kMigrations, 64 << 10);
  ASSERT_OK(db);
  const std::string big(20'000, 'x');
  int64_t stored = 0;
  absl::Status status;
  while ((status = Insert(**db, stored, big)).ok()) ++stored;
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("free some disk space")));
  EXPECT_GT(stored, 0);
  EXPECT_EQ(Count(**db), stored);
  ASSERT_OK((*db)->SetMaxBytes(0));
  EXPECT_OK(Insert(**db, stored, big));
  EXPECT_OK((*db)->CheckIntegrity());
}

TEST_F(SqliteTest, AFailedWriteIsFatal) {
  auto db = Open();
  ASSERT_OK(db);
  ASSERT_OK(Insert(**db, 1, "kept"));
  // Beyond this size of a file each write fails with EFBIG: an I/O error, no full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 32 << 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const absl::Status status = Insert(**db, 2, std::string(100'000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnknown));
  db->reset();
  auto again = Open();
  ASSERT_OK(again);
  EXPECT_EQ(Count(**again), 1);
}

TEST_F(SqliteTest, MigrationsRunOnceEachAndANewerSchemaIsRefused) {
  ASSERT_OK(Open());
  const std::vector<std::string> more = {kMigrations[0], "ALTER TABLE t ADD COLUMN d TEXT"};
  {
    auto db = Open(more);
    ASSERT_OK(db);
    EXPECT_OK((*db)->Prepare("INSERT INTO t (d) VALUES ('x')").Run());
  }
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("newer Muster")));
}

TEST_F(SqliteTest, AMigrationThatFailsLeavesNothingBehind) {
  const std::vector<std::string> broken = {kMigrations[0],
                                           "CREATE TABLE u (a INTEGER) STRICT; nonsense"};
  EXPECT_THAT(Open(broken).status(), StatusIs(absl::StatusCode::kInternal));
  auto db = Open();
  ASSERT_OK(db) << "still at version 1";
}

TEST_F(SqliteTest, SomethingElseIsNoDatabase) {
  std::ofstream(path_) << std::string(4096, 'z');
  const absl::Status status = Open().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SqliteTest, AMissingFolderIsNamed) {
  EXPECT_THAT(SqliteDatabase::Open({.path = dir_ / "no/such.db"}, {}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no")));
}

TEST_F(SqliteTest, TheLogIsWrittenOverOnceItsContentIsInTheDatabase) {
  auto db = Open();
  ASSERT_OK(db);
  auto bytes = [this](const char* suffix) {
    std::ifstream file(path_ + suffix, std::ios::ate | std::ios::binary);
    return static_cast<int64_t>(file.tellg());
  };
  ASSERT_OK(Insert(**db, 1, std::string(100'000, 'x')));
  EXPECT_OK((*db)->CheckpointAbove(1 << 20));
  EXPECT_LT(bytes(""), 100'000);  // not yet: the log may hold more
  EXPECT_OK((*db)->CheckpointAbove(1000));
  EXPECT_GT(bytes(""), 100'000);
  const int64_t log_bytes = bytes("-wal");
  EXPECT_GT(log_bytes, 100'000);
  ASSERT_OK(Insert(**db, 2, std::string(50'000, 'y')));
  EXPECT_EQ(bytes("-wal"), log_bytes);
  EXPECT_EQ(Count(**db), 2);
}

TEST_F(SqliteTest, WhatFollowsARestartOfTheLogSurvivesACrash) {
  {
    auto db = Open();
    ASSERT_OK(db);
    for (int i = 1; i <= 20; ++i) {
      ASSERT_OK(Insert(**db, i, std::string(10'000, 'x')));
      ASSERT_OK((*db)->CheckpointAbove(30'000));
    }
    // What a crash would leave: the files as they are now, without a clean close.
    std::filesystem::copy_file(path_, path_ + ".crash");
    std::filesystem::copy_file(path_ + "-wal", path_ + ".crash-wal");
  }
  std::filesystem::rename(path_ + ".crash", path_);
  std::filesystem::rename(path_ + ".crash-wal", path_ + "-wal");
  auto db = Open();
  ASSERT_OK(db);
  EXPECT_EQ(Count(**db), 20);
  EXPECT_OK((*db)->CheckIntegrity());
}

}  // namespace
}  // namespace muster::controller
