#include "worker/agent/folders/rank_folders.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/faulty_file_system.h"
#include "tests/support/hanging_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/command/offer_folders.h"
#include "worker/agent/telemetry/log_tailer.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::HangingFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankKey KeyOf(uint64_t job) { return {.job_id = job, .attempt = 1, .generation = 1, .rank = 0}; }

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

bool Asked() { return true; }

size_t Entries(const std::string& path) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}

class RankFoldersTest : public ::testing::Test {
 protected:
  RankFoldersTest() { EXPECT_OK(folders_.Open()); }
  std::string Make(uint64_t job) {
    const absl::StatusOr<std::string> path = folders_.Make(KeyOf(job));
    EXPECT_OK(path);
    return path.value_or("");
  }

  TempDir dir_;
  FaultyFileSystem fs_{PosixFileSystem()};
  Trash trash_{PosixFileSystem(), dir_ / "trash"};
  RankFolders folders_{fs_, trash_, dir_ / "ranks"};
};

TEST_F(RankFoldersTest, AFolderWithEmptyLogsServesTheNextRank) {
  const std::string first = Make(1);
  Write(first + "/" + kStdoutFile, "");
  Write(first + "/" + kStderrFile, "");
  ASSERT_OK(folders_.Remove(KeyOf(1)));
  EXPECT_FALSE(std::filesystem::exists(first));
  const std::string second = Make(2);
  EXPECT_NE(second, first);
  EXPECT_TRUE(std::filesystem::exists(second + "/" + kStdoutFile)) << "not the one of before";
  EXPECT_EQ(Entries(dir_ / "ranks"), 1u);
}

// Else it would be removed beneath the new rank.
TEST_F(RankFoldersTest, AFolderThatCouldNotBeMovedAsideIsNotUsedAgainBeforeItIsGone) {
  HangingFileSystem hanging({dir_ / "ranks"});
  Write(dir_ / "no-folder", "");
  Trash trash(hanging, dir_ / "no-folder");
  RankFolders folders(hanging, trash, dir_ / "ranks");
  const absl::StatusOr<std::string> path = folders.Make(KeyOf(1));
  ASSERT_OK(path);
  Write(*path + "/core", "old");
  EXPECT_FALSE(folders.Remove(KeyOf(1)).ok());
  EXPECT_THAT(folders.Make(KeyOf(1)).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is to be removed")));
  hanging.Release();
  while (std::filesystem::exists(*path)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_OK(folders.Make(KeyOf(1)));
  EXPECT_EQ(Entries(*path), 0u);
}

TEST_F(RankFoldersTest, WhatARankLeftInItsFolderGoesWithIt) {
  for (const char* left : {"core", kStdoutFile}) {
    const std::string folder = Make(1);
    Write(folder + "/" + left, "something");
    ASSERT_OK(folders_.Remove(KeyOf(1)));
    EXPECT_EQ(Entries(dir_ / "ranks"), 0u) << left;
  }
}

TEST_F(RankFoldersTest, BesideTheTwoLogsNothingMayBeInASpare) {
  // In whatever order the folder lists them.
  for (char name = 'a'; name <= 'p'; ++name) {
    const std::string folder = Make(1);
    for (const std::string& file : std::vector<std::string>{kStdoutFile, kStderrFile, {name}})
      Write(folder + "/" + file, "");
    ASSERT_OK(folders_.Remove(KeyOf(1)));
    EXPECT_EQ(Entries(dir_ / "ranks"), 0u) << name;
  }
}

TEST_F(RankFoldersTest, ALinkInItsPlaceIsNotLookedThroughAndNoRanksFolderAgain) {
  std::filesystem::create_directories(dir_ / "elsewhere");
  std::ofstream(dir_ / "elsewhere/stdout.log").flush();
  for (const bool restarts : {false, true}) {
    std::filesystem::remove(Make(1));
    std::filesystem::create_directory_symlink(dir_ / "elsewhere", folders_.Path(KeyOf(1)));
    if (restarts) {
      EXPECT_THAT(RankFolders(fs_, trash_, dir_ / "ranks").Open().value(), ElementsAre());
    } else {
      ASSERT_OK(folders_.Remove(KeyOf(1)));
    }
    EXPECT_EQ(Entries(dir_ / "ranks"), 0u) << restarts;
    EXPECT_TRUE(std::filesystem::exists(dir_ / "elsewhere/stdout.log"));
  }
}

TEST_F(RankFoldersTest, ASpareThatCannotBeHadIsReplacedByANewFolder) {
  Make(1);
  ASSERT_OK(folders_.Remove(KeyOf(1)));
  fs_.FailAt(1, absl::UnavailableError("gone"));
  EXPECT_TRUE(std::filesystem::is_directory(Make(2)));
  EXPECT_EQ(Entries(dir_ / "ranks"), 1u);
}

TEST_F(RankFoldersTest, AnAgentThatStartsKeepsRanksAndDropsSpares) {
  Make(7);
  Make(8);
  ASSERT_OK(folders_.Remove(KeyOf(8)));
  RankFolders next(fs_, trash_, dir_ / "ranks");
  ASSERT_OK_AND_ASSIGN(const std::vector<RankKey> ranks, next.Open());
  EXPECT_THAT(ranks, ElementsAre(KeyOf(7)));
  EXPECT_EQ(Entries(dir_ / "ranks"), 1u);
}

class OfferFoldersTest : public ::testing::Test {
 protected:
  std::string Root(int job) { return dir_ / "checkpoints/job-" + std::to_string(job); }

  TempDir dir_;
  FaultyFileSystem fs_{PosixFileSystem()};
};

TEST_F(OfferFoldersTest, NothingStaysOfAJobThatSavedNothing) {
  ASSERT_OK(OfferFolders::Make(fs_, Root(1)));
  ASSERT_OK(OfferFolders::Make(fs_, Root(1))) << "a later attempt finds it";
  EXPECT_TRUE(std::filesystem::is_directory(OfferFolders::Path(Root(1))));
  OfferFolders::GiveBack(Root(1), Asked);
  EXPECT_EQ(Entries(dir_ / "checkpoints"), 0u);
  OfferFolders::GiveBack(Root(1), Asked);
}

TEST_F(OfferFoldersTest, WhatAJobWroteStays) {
  ASSERT_OK(OfferFolders::Make(fs_, Root(1)));
  Write(OfferFolders::Path(Root(1)) + "/model.pt", "weights");
  OfferFolders::GiveBack(Root(1), Asked);
  EXPECT_TRUE(std::filesystem::exists(OfferFolders::Path(Root(1)) + "/model.pt"));
  ASSERT_OK(OfferFolders::Make(fs_, Root(2)));
  std::filesystem::create_directories(Root(2) + "/step-1.a1.g1");
  OfferFolders::GiveBack(Root(2), Asked);
  EXPECT_TRUE(std::filesystem::exists(Root(2) + "/step-1.a1.g1"));
}

TEST_F(OfferFoldersTest, WhoComesTooLateTakesNothing) {
  ASSERT_OK(OfferFolders::Make(fs_, Root(1)));
  OfferFolders::GiveBack(Root(1), [] { return false; });
  EXPECT_TRUE(std::filesystem::exists(OfferFolders::Path(Root(1))));
  int asked = 0;
  OfferFolders::GiveBack(Root(1), [&] { return ++asked == 1; });
  EXPECT_FALSE(std::filesystem::exists(OfferFolders::Path(Root(1))));
  EXPECT_TRUE(std::filesystem::exists(Root(1))) << "too late by then";
}

TEST_F(OfferFoldersTest, NoLinkInItsPlaceIsFollowed) {
  std::filesystem::create_directories(dir_ / "kept/offers");
  std::filesystem::create_directories(dir_ / "checkpoints");
  std::filesystem::create_directory_symlink(dir_ / "kept", Root(1));
  OfferFolders::GiveBack(Root(1), Asked);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "kept/offers"));
  std::filesystem::create_directories(Root(2));
  std::filesystem::create_directory_symlink(dir_ / "kept", OfferFolders::Path(Root(2)));
  OfferFolders::GiveBack(Root(2), Asked);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "kept/offers"));
}

TEST_F(OfferFoldersTest, AFolderThatCannotBeMadeIsSaid) {
  fs_.FailAt(1, absl::PermissionDeniedError("read-only"));
  EXPECT_THAT(OfferFolders::Make(fs_, Root(1)),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("")));
}

}  // namespace
}  // namespace muster::worker
