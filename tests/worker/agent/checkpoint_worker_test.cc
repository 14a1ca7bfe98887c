#include "worker/agent/checkpoint_worker.h"

#include <filesystem>
#include <fstream>

#include "common/base/clock.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

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

CheckpointOutcome VerifyOn(FileSystem& fs, const std::string& path) {
  RealClock clock;
  auto loop = EventLoop::Create(clock);
  EXPECT_OK(loop);
  CheckpointOutcome outcome;
  CheckpointWorker worker(fs, (*loop)->mailbox(), [&](CheckpointOutcome done) {
    outcome = std::move(done);
    (*loop)->Quit();
  });
  v1::VerifyCheckpoint assignment;
  assignment.set_outbox_seq(5);
  assignment.set_checkpoint_id(9);
  assignment.set_path(path);
  EXPECT_TRUE(worker.Verify(assignment));
  (*loop)->Run();
  return outcome;
}

TEST(CheckpointWorker, ADiskThatIsAwayIsNoVerdict) {
  UnreadableFileSystem fs;
  const CheckpointOutcome outcome = VerifyOn(fs, "/c/step-1.a1.g1");
  EXPECT_EQ(outcome.outbox_seq, 5u);
  EXPECT_THAT(outcome.refusal, HasSubstr("the disk is away"));
}

TEST(CheckpointWorker, AFolderThatIsMissingIsOne) {
  TempDir dir;
  const CheckpointOutcome outcome = VerifyOn(PosixFileSystem(), dir / "step-1.a1.g1");
  EXPECT_EQ(outcome.refusal, "");
  EXPECT_EQ(outcome.result.verify_result().checkpoint_id(), 9u);
  EXPECT_FALSE(outcome.result.verify_result().ok());
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
