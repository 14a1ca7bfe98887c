#include "controller/backup/backup_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>

#include "absl/time/clock.h"
#include "controller/backup/restore_command.h"
#include "controller/store/history/history_store.h"
#include "controller/store/metrics/metrics_store.h"
#include "controller/store/state_store.h"
#include "tests/support/hanging_file_system.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class BackupMakerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(Backups());
    std::filesystem::create_directories(dir_ / "data/tls");
    std::ofstream(dir_ / "data/token") << "secret\n";
    std::ofstream(dir_ / "data/tls/ca.key") << "key\n";
    Start(2);
  }
  void Start(uint32_t keep, FileSystem& fs = PosixFileSystem()) {
    maker_.reset();
    BackupMaker::Sources sources;
    sources.copy_databases = [this](const std::string& folder) -> absl::Status {
      copied_to_ = folder;
      if (!copy_status_.ok()) return copy_status_;
      clock_.Advance(copy_takes_);
      auto state = StateStore::Open({.path = dir_ / "state.db"});
      auto history = HistoryStore::Open({.path = dir_ / "history.db"});
      auto metrics = MetricsStore::Open(dir_ / "metrics.db", 0);
      if (!state.ok() || !history.ok() || !metrics.ok()) return absl::InternalError("no stores");
      (*state)->StartTerm().IgnoreError();
      if (auto begun = (*state)->BeginCopy(folder + "/state.db"); !begun.ok()) return begun;
      for (absl::StatusOr<bool> whole = false; !*whole;) {
        // Written to while it is copied.
        (*state)->StartTerm().IgnoreError();
        whole = (*state)->StepCopy();
        if (!whole.ok()) return whole.status();
      }
      // Of the last two the maker knows no more than that they are databases.
      for (const char* name : {"/history.db", "/access.db", "/enrollment.db"}) {
        if (auto copied = (*history)->CopyTo(folder + name); !copied.ok()) return copied;
      }
      if (auto begun = (*metrics)->BeginCopy(folder + "/metrics.db"); !begun.ok()) return begun;
      for (absl::StatusOr<bool> whole = false; !*whole;) {
        whole = (*metrics)->StepCopy();
        if (!whole.ok()) return whole.status();
      }
      return absl::OkStatus();
    };
    sources.term = [] { return uint64_t{7}; };
    sources.uploads = [this](absl::Duration ended_within) {
      ended_within_ = ended_within;
      return std::vector<std::string>{};
    };
    maker_ = std::make_unique<BackupMaker>(BackupMaker::Options{.data_dir = dir_ / "data",
                                                                .backup_dir = Backups(),
                                                                .every = absl::ZeroDuration(),
                                                                .keep = keep,
                                                                .version = "1"},
                                           std::move(sources), fs, clock_);
    maker_->Start();
  }
  // The newest one that is found after Start.
  std::string FoundNewest() {
    while (!maker_->newest().has_value()) absl::SleepFor(absl::Milliseconds(1));
    return maker_->newest()->folder;
  }
  absl::StatusOr<BackupMaker::Made> Make() {
    std::promise<absl::StatusOr<BackupMaker::Made>> made;
    maker_->Ask([&](const absl::StatusOr<BackupMaker::Made>& answer) { made.set_value(answer); });
    return made.get_future().get();
  }
  absl::StatusOr<std::string> Restore(const std::string& folder) {
    const std::string to = dir_ / "restored";
    const char* argv[] = {"musterd", "restore", folder.c_str(), "--data-dir", to.c_str()};
    return RunRestoreCommand(5, argv, PosixFileSystem(), absl::Now());
  }
  std::string Backups() const { return dir_ / "backups"; }
  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Backups())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  ::muster::testing::TempDir dir_;
  SimulatedClock clock_;
  std::string copied_to_;
  absl::Status copy_status_;
  absl::Duration copy_takes_;
  absl::Duration ended_within_;
  std::unique_ptr<BackupMaker> maker_;
};

TEST_F(BackupMakerTest, ABackupHasTheDatabasesAndTheSecretsAndIsItsOwnersAlone) {
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  const auto manifest = ReadManifest(PosixFileSystem(), made->folder);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->term, 7u);
  std::vector<std::string> names;
  for (const BackedUpFile& file : manifest->files) names.push_back(file.name);
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("state.db", "history.db", "metrics.db", "access.db",
                                              "enrollment.db", "token", "tls/ca.key"));
  struct stat info;
  ASSERT_EQ(::stat((made->folder + "/tls/ca.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(maker_->newest()->folder, made->folder);
}

TEST_F(BackupMakerTest, WhatIsRestoredGoesOnAboveEveryTermOfBefore) {
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  const auto restored = Restore(made->folder);
  ASSERT_TRUE(restored.ok()) << restored.status();
  auto state = StateStore::Open({.path = dir_ / "restored/state.db"});
  ASSERT_TRUE(state.ok()) << state.status();
  const auto from = (*state)->Restored();
  ASSERT_TRUE(from.ok() && from->has_value());
  EXPECT_FALSE((*from)->accepted);
  const auto term = (*state)->StartTerm();
  ASSERT_TRUE(term.ok());
  EXPECT_GT(*term, (*from)->term + 1'000'000);
  EXPECT_EQ(*term, (*from)->restored_at_term + 1);
}

TEST_F(BackupMakerTest, AFailureIsSaidAndLeavesNothing) {
  copy_status_ = absl::ResourceExhaustedError("no room");
  const auto made = Make();
  EXPECT_TRUE(absl::IsResourceExhausted(made.status()));
  EXPECT_THAT(std::string(maker_->last_error().message()), HasSubstr("no room"));
  EXPECT_THAT(Entries(), SizeIs(0));
  copy_status_ = absl::OkStatus();
  ASSERT_TRUE(Make().ok());
  EXPECT_TRUE(maker_->last_error().ok());
}

TEST_F(BackupMakerTest, AFolderThatIsNotThereIsNotMade) {
  std::filesystem::remove(Backups());
  EXPECT_THAT(std::string(Make().status().message()), HasSubstr("is not there"));
  EXPECT_FALSE(std::filesystem::exists(Backups()));
}

TEST_F(BackupMakerTest, ThreadsOfDatabasesWriteToTheDataFolderAlone) {
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  // The backup folder may be a mount whose server is away.
  EXPECT_THAT(copied_to_, ::testing::StartsWith(dir_ / "data/"));
  EXPECT_FALSE(std::filesystem::exists(copied_to_));
}

TEST_F(BackupMakerTest, WhatWasLeftInTheStagingFolderGoes) {
  ASSERT_TRUE(Make().ok());
  std::filesystem::create_directory(copied_to_);
  std::ofstream(copied_to_ + "/state.db") << "half";
  Start(2);  // as the next life
  EXPECT_FALSE(std::filesystem::exists(copied_to_));
}

TEST_F(BackupMakerTest, AfterAClockThatRanAheadTheBackupJustMadeStays) {
  clock_.JumpWall(absl::Hours(24));
  std::vector<std::string> of_tomorrow;
  for (int i = 0; i < 2; ++i) {
    const auto made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    of_tomorrow.push_back(std::filesystem::path(made->folder).filename());
    clock_.Advance(absl::Seconds(1));
  }
  clock_.JumpWall(-absl::Hours(24));
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string today = std::filesystem::path(made->folder).filename();
  EXPECT_THAT(Entries(), ::testing::UnorderedElementsAre(today, of_tomorrow[1]));
  Start(2);  // as the next life
  EXPECT_EQ(FoundNewest(), made->folder);
}

// Jobs that end while the databases are copied live in the copy: their folders are wanted, too.
TEST_F(BackupMakerTest, UploadsOfJobsThatEndedMeanwhileAreAskedFor) {
  copy_takes_ = absl::Minutes(7);
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(ended_within_, absl::Minutes(7));
}

// As on a mount whose server is away: musterd starts all the same.
TEST_F(BackupMakerTest, AFolderThatHangsHoldsUpNoStart) {
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  ::muster::testing::HangingFileSystem fs({Backups()});
  Start(2, fs);
  while (fs.hung() == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(maker_->newest().has_value());
  fs.Release();
  EXPECT_EQ(FoundNewest(), made->folder);
  maker_.reset();
}

TEST_F(BackupMakerTest, ALinkIntoTheDataFolderIsRefused) {
  std::filesystem::remove(Backups());
  std::filesystem::create_directory(dir_ / "data/inside");
  std::filesystem::create_symlink(dir_ / "data/inside", Backups());
  EXPECT_THAT(std::string(Make().status().message()), HasSubstr("leads into the data folder"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "data/inside"));
}

// Who lowers --backup-keep, as the disk is full, need not remove backups by hand.
TEST_F(BackupMakerTest, WithoutRoomThoseThatNeedNotBeKeptGo) {
  Start(4);
  std::string newest;
  for (int i = 0; i < 4; ++i) {
    const auto made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    newest = std::filesystem::path(made->folder).filename();
    clock_.Advance(absl::Seconds(1));
  }
  Start(1);  // as the next life
  copy_status_ = absl::UnavailableError("another reason");
  EXPECT_FALSE(Make().ok());
  EXPECT_THAT(Entries(), SizeIs(4));
  copy_status_ = absl::ResourceExhaustedError("no room");
  EXPECT_FALSE(Make().ok());
  EXPECT_THAT(Entries(), ::testing::ElementsAre(newest));
}

TEST_F(BackupMakerTest, TheNewestStayAndWhatWasLeftHalfMadeGoes) {
  std::string newest;
  for (int i = 0; i < 4; ++i) {
    const auto made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    newest = made->folder;
    clock_.Advance(absl::Seconds(1));
  }
  std::filesystem::create_directory(Backups() + "/.partial-muster-1");
  Start(2);  // as the next life
  EXPECT_EQ(FoundNewest(), newest);
  EXPECT_THAT(Entries(), SizeIs(2));
}

}  // namespace
}  // namespace muster::controller
