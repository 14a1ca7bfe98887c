// A checkpoint through a loss of power at each call of its writer: what was published is found and
// whole afterwards, and what is found is whole.
#include "common/ckpt/checkpoint_finder.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/fs/durable_folder.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/crash_file_system.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::CheckpointSpec;
using ::muster::testing::CrashFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::WriteCheckpoint;
using ::muster::testing::WrittenCheckpoint;
using Luck = CrashFileSystem::Luck;

constexpr char kRoot[] = "/data/ckpt/job-7";
// More operations than one save has: the sweeps end when a save passes untouched.
constexpr int kMaxOperations = 100;
constexpr uint64_t kSeeds = 20;

struct Fate {
  Luck luck;
  uint64_t seed;
};

std::vector<Fate> Fates() {
  std::vector<Fate> fates = {{Luck::kNone, 0}, {Luck::kNames, 0}};
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) fates.push_back({Luck::kSome, seed});
  return fates;
}

// The step that the next attempt goes on from; -1: from nothing.
int64_t Recover(FileSystem& fs, const std::vector<CheckpointCandidate>& registered) {
  EXPECT_OK(RemoveStaleTemporaries(fs, kRoot, 2, 1));
  FindRequest request;
  request.root = kRoot;
  request.job_id = 7;
  request.job_name = "digits";
  request.attempt = 2;
  request.registered = registered;
  request.on_bad = [](const CheckpointCandidate& candidate, const absl::Status& status) {
    ADD_FAILURE() << "half there: " << candidate.path << ": " << status;
  };
  const auto found = FindCheckpoint(fs, request);
  EXPECT_OK(found);
  return found.ok() && found->has_value() ? (*found)->checkpoint.manifest.step : -1;
}

TEST(CheckpointCrashTest, WhatWasPublishedOutlivesThePower) {
  for (const Fate& fate : Fates()) {
    CrashFileSystem fs;
    // Somebody made the folder, and did not wait for the disk.
    ASSERT_OK(fs.MakeDirectories(kRoot));
    ASSERT_OK_AND_ASSIGN(const WrittenCheckpoint written, WriteCheckpoint(fs, kRoot, {}));
    // The root itself is made durable by whoever claims it.
    ASSERT_OK(MakeDurableFolder(fs, "/data"));
    ASSERT_OK(MakeDurableFolder(fs, "/data/ckpt"));
    fs.LosePower();
    fs.PowerOn(fate.luck, fate.seed);
    EXPECT_EQ(Recover(fs, {{written.path, 10, written.manifest_sha256}}), 10) << fate.seed;
  }
}

TEST(CheckpointCrashTest, ALossOfPowerAtEachCallLeavesTheOldOrTheNewCheckpointWhole) {
  CheckpointSpec newer;
  newer.step = 20;
  newer.files.push_back({"big", std::string(kHashBlockBytes + 1, 'b')});
  for (const Fate& fate : Fates()) {
    bool passed = false;
    int n = 1;
    for (; !passed && n < kMaxOperations; ++n) {
      CrashFileSystem fs;
      ASSERT_OK(MakeDurableFolder(fs, "/data/ckpt"));
      ASSERT_OK_AND_ASSIGN(const WrittenCheckpoint old, WriteCheckpoint(fs, kRoot, {}));
      fs.LosePowerAt(n);
      const auto written = WriteCheckpoint(fs, kRoot, newer);
      passed = written.ok() && !fs.is_off();
      fs.LosePower();
      fs.PowerOn(fate.luck, fate.seed + n);
      SCOPED_TRACE(absl::StrCat("call ", n, ", seed ", fate.seed));
      const int64_t step = Recover(fs, {{old.path, 10, old.manifest_sha256}});
      EXPECT_TRUE(step == 10 || step == 20) << step;
      if (written.ok()) {
        EXPECT_EQ(step, 20) << "published, and gone";
      }
    }
    EXPECT_TRUE(passed);
    EXPECT_GT(n, 20);
  }
}

TEST(CheckpointCrashTest, TheFirstOneBringsItsFolderWithIt) {
  for (const Fate& fate : Fates()) {
    bool passed = false;
    for (int n = 1; !passed && n < kMaxOperations; ++n) {
      CrashFileSystem fs;
      ASSERT_OK(MakeDurableFolder(fs, "/data/ckpt"));
      fs.LosePowerAt(n);
      const auto written = WriteCheckpoint(fs, kRoot, {});
      passed = written.ok() && !fs.is_off();
      fs.LosePower();
      fs.PowerOn(fate.luck, fate.seed + n);
      SCOPED_TRACE(absl::StrCat("call ", n, ", seed ", fate.seed));
      const int64_t step = Recover(fs, {});
      if (written.ok()) {
        EXPECT_EQ(step, 10) << "published, and gone";
      }
    }
    EXPECT_TRUE(passed);
  }
}

TEST(CheckpointCrashTest, AMarkerThatWasSaidToBeThereStays) {
  for (const Fate& fate : Fates()) {
    bool passed = false;
    for (int n = 1; !passed && n < kMaxOperations; ++n) {
      CrashFileSystem fs;
      fs.LosePowerAt(n);
      const auto first = ClaimRoot(fs, {"/data/ckpt", "first"}, {}, "a");
      passed = first.ok() && !fs.is_off();
      fs.LosePower();
      fs.PowerOn(fate.luck, fate.seed + n);
      SCOPED_TRACE(absl::StrCat("call ", n, ", seed ", fate.seed));
      // Whoever comes next finds it, or makes it, whatever the crash left.
      ASSERT_OK_AND_ASSIGN(const std::string now, ClaimRoot(fs, {"/data/ckpt", "second"}, {}, "b"));
      EXPECT_TRUE(now == "first" || now == "second") << now;
      if (first.ok()) {
        EXPECT_EQ(now, "first");
      }
      EXPECT_OK(CheckRoot(fs, {.path = "/data/ckpt", .identity = now}));
    }
    EXPECT_TRUE(passed);
  }
}

TEST(MakeDurableFolder, SyncsEachFolderThatItMadeIntoTheOneThatHoldsIt) {
  CrashFileSystem fs;
  ASSERT_OK(MakeDurableFolder(fs, "/a/b/c"));
  ASSERT_OK(fs.MakeDirectories("/a/b/d"));
  fs.LosePower();
  fs.PowerOn(Luck::kNone);
  EXPECT_TRUE(*fs.Exists("/a/b/c"));
  EXPECT_FALSE(*fs.Exists("/a/b/d"));
}

TEST(CrashFileSystem, ForgetsWhatWasNotSynced) {
  CrashFileSystem fs;
  ASSERT_OK(MakeDurableFolder(fs, "/a"));
  ASSERT_OK_AND_ASSIGN(const auto file, fs.CreateExclusive("/a/f"));
  ASSERT_OK(file->Append("kept"));
  ASSERT_OK(file->Sync());
  ASSERT_OK(fs.SyncDirectory("/a"));
  ASSERT_OK(file->Append(", lost"));
  ASSERT_OK(fs.CreateExclusive("/a/g").status());
  ASSERT_OK(fs.Rename("/a/f", "/a/h"));
  fs.LosePower();
  EXPECT_THAT(fs.ReadFile("/a/f", 100), StatusIs(absl::StatusCode::kUnavailable));
  fs.PowerOn(Luck::kNone);
  EXPECT_EQ(*fs.ReadFile("/a/f", 100), "kept");
  EXPECT_FALSE(*fs.Exists("/a/g"));
  EXPECT_FALSE(*fs.Exists("/a/h"));
}

}  // namespace
}  // namespace muster
