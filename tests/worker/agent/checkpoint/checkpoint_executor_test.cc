#include "worker/agent/checkpoint/checkpoint_executor.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/ckpt/checkpoint_root.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/hanging_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/base/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::HangingFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::WriteCheckpoint;
using ::testing::HasSubstr;

constexpr absl::Duration kNoStall = absl::Hours(1);

// Answers every read as a disk would that is away.
class UnreadableFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string&,
                                                                uint32_t) override {
    return away_;
  }
  absl::StatusOr<std::string> ReadFile(const std::string&, uint64_t) override { return away_; }
  absl::StatusOr<uint64_t> ReadAt(const std::string&, uint64_t, char*, uint64_t) override {
    return away_;
  }
  absl::StatusOr<uint64_t> FileSize(const std::string&) override { return away_; }
  absl::StatusOr<bool> Exists(const std::string&) override { return away_; }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string&) override { return away_; }
  absl::Status MakeDirectories(const std::string&) override { return away_; }
  absl::Status Rename(const std::string&, const std::string&) override { return away_; }
  absl::Status SyncDirectory(const std::string&) override { return away_; }
  absl::Status RemoveFile(const std::string&) override { return away_; }
  absl::Status RemoveTree(const std::string&) override { return away_; }

 private:
  const absl::Status away_ = absl::UnavailableError("the disk is away");
};

template <typename Assignment>
CheckpointOutcome CarryOut(FileSystem& fs, Assignment assignment,
                           bool (CheckpointExecutor::*take)(const Assignment&)) {
  RealClock clock;
  auto loop = EventLoop::Create(clock);
  EXPECT_OK(loop);
  CheckpointOutcome outcome;
  CheckpointExecutor worker(fs, **loop, (*loop)->mailbox(), {.patience = kNoStall},
                            [&](CheckpointOutcome done) {
                              outcome = std::move(done);
                              (*loop)->Quit();
                            });
  assignment.set_outbox_seq(5);
  assignment.set_checkpoint_id(9);
  EXPECT_TRUE((worker.*take)(assignment));
  (*loop)->Run();
  return outcome;
}

CheckpointOutcome VerifyOn(FileSystem& fs, const std::string& path, const CheckpointRoot& root) {
  v1::VerifyCheckpoint assignment;
  assignment.set_path(path);
  assignment.set_root(root.path);
  assignment.set_root_identity(root.identity);
  return CarryOut(fs, assignment, &CheckpointExecutor::Verify);
}

CheckpointRoot MakeRoot(const TempDir& dir) {
  EXPECT_OK(ClaimRoot(PosixFileSystem(), {dir.path(), "abc1"}, {}, "test"));
  return {.path = dir.path(), .identity = "abc1"};
}

TEST(CheckpointExecutor, ADiskThatIsAwayIsNoVerdict) {
  UnreadableFileSystem fs;
  const CheckpointOutcome outcome = VerifyOn(fs, "/c/step-1.a1.g1", {});
  EXPECT_EQ(outcome.outbox_seq, 5u);
  EXPECT_THAT(outcome.refusal, HasSubstr("the disk is away"));
}

TEST(CheckpointExecutor, AFolderThatIsMissingInASeenRootIsMissing) {
  TempDir dir;
  const CheckpointOutcome outcome =
      VerifyOn(PosixFileSystem(), dir / "job-1/step-1.a1.g1", MakeRoot(dir));
  EXPECT_EQ(outcome.refusal, "");
  EXPECT_EQ(outcome.result.verify_result().checkpoint_id(), 9u);
  EXPECT_FALSE(outcome.result.verify_result().ok());
  EXPECT_TRUE(outcome.result.verify_result().missing());
}

TEST(CheckpointExecutor, WhereTheRootIsNotSeenNothingIsMissingAndNothingIsGone) {
  TempDir dir;
  const CheckpointRoot away{.path = dir.path(), .identity = "abc1"};
  const std::string path = dir / "job-1/step-1.a1.g1";
  EXPECT_THAT(VerifyOn(PosixFileSystem(), path, away).refusal, HasSubstr("is it mounted?"));
  v1::DeleteCheckpoint remove;
  remove.set_path(path);
  remove.set_root(away.path);
  remove.set_root_identity(away.identity);
  EXPECT_THAT(CarryOut(PosixFileSystem(), remove, &CheckpointExecutor::Delete).refusal,
              HasSubstr("is it mounted?"));
}

TEST(CheckpointExecutor, WhatIsNotThereInAnUnknownRootIsNoVerdict) {
  TempDir dir;
  EXPECT_THAT(VerifyOn(PosixFileSystem(), dir / "job-1/step-1.a1.g1", {}).refusal,
              HasSubstr("step-1.a1.g1"));
}

TEST(CheckpointExecutor, BytesThatDoNotMatchAreOne) {
  TempDir dir;
  const CheckpointRoot root = MakeRoot(dir);
  const auto written = WriteCheckpoint(PosixFileSystem(), dir / "job-7", {});
  ASSERT_OK(written);
  EXPECT_TRUE(VerifyOn(PosixFileSystem(), written->path, root).result.verify_result().ok());
  std::ofstream(written->path + "/model.safetensors") << "MODEL BYTES";
  const CheckpointOutcome outcome = VerifyOn(PosixFileSystem(), written->path, root);
  EXPECT_EQ(outcome.refusal, "");
  EXPECT_FALSE(outcome.result.verify_result().ok());
  EXPECT_FALSE(outcome.result.verify_result().missing());
}

TEST(CheckpointExecutor, AMountThatHangsDoesNotHoldUpTheEnd) {
  // Outlive the thread that is left behind.
  static FaultyFileSystem* const fs = new FaultyFileSystem(PosixFileSystem());
  static std::promise<void>* const began = new std::promise<void>();
  static std::promise<void>* const go_on = new std::promise<void>();
  static std::promise<void>* const ended = new std::promise<void>();
  TempDir dir;
  std::filesystem::create_directories(dir / "step-1.a1.g1");
  fs->CallAt(1, [] {
    began->set_value();
    go_on->get_future().wait();
    ended->set_value();
  });
  RealClock clock;
  const auto loop = EventLoop::Create(clock);
  ASSERT_OK(loop);
  {
    CheckpointExecutor worker(*fs, **loop, (*loop)->mailbox(), {.patience = kNoStall},
                              [](CheckpointOutcome) { ADD_FAILURE() << "it came too late"; });
    v1::DeleteCheckpoint remove;
    remove.set_path(dir / "step-1.a1.g1");
    ASSERT_TRUE(worker.Delete(remove));
    began->get_future().wait();
  }
  go_on->set_value();
  ended->get_future().wait();
}

// Deletes in two roots of one machine, the first of which hangs.
class HungRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& root : {hung_, sound_}) {
      ASSERT_OK(ClaimRoot(PosixFileSystem(), {root, "abc1"}, {}, "test"));
      for (int step = 1; step <= 2; ++step) {
        std::filesystem::create_directories(Folder(root, step));
      }
    }
  }
  static std::string Folder(const std::string& root, int step) {
    return absl::StrCat(root, "/step-", step, ".a1.g1");
  }
  bool Delete(uint64_t outbox_seq, const std::string& root, int step) {
    v1::DeleteCheckpoint remove;
    remove.set_outbox_seq(outbox_seq);
    remove.set_path(Folder(root, step));
    remove.set_root(root);
    remove.set_root_identity("abc1");
    return worker_.Delete(remove);
  }
  void RunUntilAnswered(size_t most) {
    answers_awaited_ = most;
    if (answers_.size() < most) loop_->Run();
  }

  TempDir dir_;
  const std::string hung_ = dir_ / "hung";
  const std::string sound_ = dir_ / "sound";
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  HangingFileSystem fs_{{hung_}};
  std::map<uint64_t, CheckpointOutcome> answers_;  // by the assignment's number
  size_t answers_awaited_ = 0;
  std::string mounts_ = "7 1 0:1 / / rw";
  CheckpointExecutor worker_{fs_,
                             *loop_,
                             loop_->mailbox(),
                             {.patience = absl::Seconds(2),
                              .mount_info = [this] { return mounts_; },
                              .mounts_every = absl::ZeroDuration()},
                             [this](CheckpointOutcome outcome) {
                               answers_[outcome.outbox_seq] = outcome;
                               if (answers_.size() == answers_awaited_) loop_->Quit();
                             }};
};

TEST_F(HungRootTest, HoldsUpNoOther) {
  ASSERT_TRUE(Delete(1, hung_, 1));
  ASSERT_TRUE(Delete(2, sound_, 1));
  RunUntilAnswered(1);
  EXPECT_EQ(answers_.begin()->first, 2u);
  EXPECT_TRUE(answers_[2].result.delete_result().ok());
  EXPECT_FALSE(std::filesystem::exists(Folder(sound_, 1)));
  fs_.Release();
}

TEST_F(HungRootTest, ItsAssignmentsAreRefusedUntilItAnswers) {
  ASSERT_TRUE(Delete(1, hung_, 1));
  ASSERT_TRUE(Delete(2, hung_, 2));  // waits behind it
  RunUntilAnswered(2);
  for (const uint64_t seq : {1, 2}) {
    EXPECT_THAT(answers_[seq].refusal, HasSubstr(Folder(hung_, 1))) << seq;
    EXPECT_THAT(answers_[seq].refusal, HasSubstr("does its file system hang")) << seq;
  }
  ASSERT_TRUE(Delete(3, hung_, 2));
  EXPECT_THAT(answers_[3].refusal, HasSubstr("does its file system hang"));
  EXPECT_EQ(fs_.hung(), 1);
  // What was refused is another's by now. What comes next is done.
  fs_.Release();
  for (uint64_t seq = 4; answers_[seq - 1].refusal != ""; ++seq) {
    loop_->After(absl::Milliseconds(10), [&] { loop_->Quit(); });
    loop_->Run();
    ASSERT_TRUE(Delete(seq, hung_, 2));
    RunUntilAnswered(seq);
  }
  EXPECT_FALSE(std::filesystem::exists(Folder(hung_, 2)));
  EXPECT_TRUE(std::filesystem::exists(Folder(hung_, 1)));
}

TEST_F(HungRootTest, IsReadAndDeletedInOnAnotherMountInItsPlace) {
  ASSERT_TRUE(Delete(1, hung_, 1));
  RunUntilAnswered(1);
  EXPECT_THAT(answers_[1].refusal, HasSubstr("does its file system hang"));
  fs_.LetPass();
  mounts_ += "\n8 7 0:2 / " + hung_ + " rw";
  ASSERT_TRUE(Delete(2, hung_, 2));
  RunUntilAnswered(2);
  EXPECT_EQ(answers_[2].refusal, "");
  EXPECT_FALSE(std::filesystem::exists(Folder(hung_, 2)));
  EXPECT_TRUE(std::filesystem::exists(Folder(hung_, 1))) << "that removal hangs yet";
  fs_.Release();
}

TEST(DeleteCheckpointFolder, RemovesNothingOnceItIsGivenUp) {
  TempDir dir;
  const std::string path = dir / "step-1.a1.g1";
  std::filesystem::create_directories(path);
  std::ofstream(path + "/MANIFEST.json") << "{}";
  EXPECT_THAT(DeleteCheckpointFolder(PosixFileSystem(), path, [] { return false; }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(std::filesystem::exists(path + "/MANIFEST.json"));
}

TEST(DeleteCheckpointFolder, TakesTheManifestFirst) {
  TempDir dir;
  FaultyFileSystem fs(PosixFileSystem());
  const std::string path = dir / "step-1.a1.g1";
  std::filesystem::create_directories(path);
  std::ofstream(path + "/MANIFEST.json") << "{}";
  std::ofstream(path + "/model.safetensors") << "x";
  fs.FailAt(3, absl::UnavailableError("crash"));  // after the manifest and its sync
  EXPECT_THAT(DeleteCheckpointFolder(fs, path), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(std::filesystem::exists(path + "/MANIFEST.json"));
  EXPECT_TRUE(std::filesystem::exists(path + "/model.safetensors"));
  EXPECT_OK(DeleteCheckpointFolder(fs, path));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_OK(DeleteCheckpointFolder(fs, path));  // gone already
}

TEST(DeleteCheckpointFolder, RefusesWhatIsNoPublishedCheckpoint) {
  TempDir dir;
  for (const std::string& path :
       {std::string("step-1.a1.g1"), std::string("/step-1.a1.g1"), dir.path(),
        dir / "step-1.a1.g1.abc.tmp", dir / "step-1.a1.g1/..", std::string("")}) {
    EXPECT_THAT(DeleteCheckpointFolder(PosixFileSystem(), path),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << path;
  }
  EXPECT_TRUE(std::filesystem::exists(dir.path()));
}

}  // namespace
}  // namespace muster::worker
