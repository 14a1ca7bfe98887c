#include "common/ckpt/checkpoint_writer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "common/ckpt/checkpoint_finder.h"
#include "common/ckpt/verifier.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::CheckpointSpec;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::WriteCheckpoint;
using ::muster::testing::WrittenCheckpoint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// More operations than one save has: the sweeps end when a save passes untouched.
constexpr int kMaxWriterOperations = 100;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<FileInfo>> files = PosixFileSystem().List(folder);
  if (!files.ok()) return names;
  for (const FileInfo& file : *files) names.push_back(file.name);
  return names;
}

TEST(CheckpointWriterTest, WritesEverythingAndSyncsItBeforeTheRename) {
  TempDir dir;
  FaultyFileSystem fs(PosixFileSystem());
  ASSERT_OK(WriteCheckpoint(fs, dir / "job-7", {}));
  const std::string tmp = dir / "job-7/step-10.a1.g1.n0.tmp";
  EXPECT_THAT(
      fs.trace(),
      ElementsAre("mkdir " + dir / "job-7", "syncdir " + dir.path(), "mkdir " + tmp,
                  "create " + tmp + "/model.safetensors", "append " + tmp + "/model.safetensors",
                  "sync " + tmp + "/model.safetensors", "close " + tmp + "/model.safetensors",
                  "create " + tmp + "/state.json", "append " + tmp + "/state.json",
                  "sync " + tmp + "/state.json", "close " + tmp + "/state.json",
                  "create " + tmp + "/MANIFEST.json", "append " + tmp + "/MANIFEST.json",
                  "sync " + tmp + "/MANIFEST.json", "close " + tmp + "/MANIFEST.json",
                  "syncdir " + tmp, "rename " + dir / "job-7/step-10.a1.g1",
                  "syncdir " + dir / "job-7"));
}

TEST(CheckpointWriterTest, AFaultAnywhereLeavesNothingHalfAndNoTemporary) {
  int n = 1;
  for (; n < kMaxWriterOperations; ++n) {
    TempDir dir;
    FaultyFileSystem fs(PosixFileSystem());
    fs.FailAt(n, absl::ResourceExhaustedError("no space left on device"));
    const absl::StatusOr<WrittenCheckpoint> written = WriteCheckpoint(fs, dir / "job", {});
    if (written.ok()) break;
    EXPECT_THAT(written, StatusIs(StatusCode::kResourceExhausted));
    const std::vector<std::string> names = NamesIn(dir / "job");
    // The last operation is the sync of the parent: the name may be there, and then it is whole.
    if (n < 18) {
      EXPECT_THAT(names, ElementsAre()) << "operation " << n;
    } else {
      ASSERT_THAT(names, ElementsAre("step-10.a1.g1"));
      EXPECT_OK(VerifyCheckpoint(PosixFileSystem(), dir / "job/step-10.a1.g1", ""));
    }
  }
  EXPECT_EQ(n, 19);
}

TEST(CheckpointWriterTest, WhatNoReaderWouldTakeIsNotWritten) {
  for (const char* name : {"a\\b", "a\nb", "latin-\xe9", "../x", "MANIFEST.json"}) {
    TempDir dir;
    CheckpointSpec spec;
    spec.files.push_back({name, "x"});
    EXPECT_THAT(WriteCheckpoint(PosixFileSystem(), dir / "job", spec),
                StatusIs(StatusCode::kInvalidArgument))
        << name;
    EXPECT_THAT(NamesIn(dir / "job"), ElementsAre()) << name;
    EXPECT_THAT(NamesIn(dir.path()), ElementsAre("job")) << name;
  }
  // And what else a manifest cannot hold.
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const auto writer,
                       CheckpointWriter::Create(PosixFileSystem(), dir / "job", {10, 1, 1, "n0"}));
  ASSERT_OK(writer->AddFile("x", [](const ByteSink& sink) { return sink("x"); }));
  Manifest manifest;
  manifest.epoch = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(writer->Finish(manifest),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"epoch\"")));
}

TEST(CheckpointWriterTest, AnExistingFolderIsNeverWrittenInto) {
  TempDir dir;
  ASSERT_OK(WriteCheckpoint(PosixFileSystem(), dir.path(), {}));
  EXPECT_THAT(WriteCheckpoint(PosixFileSystem(), dir.path(), {}),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("step-10.a1.g1")));
  EXPECT_THAT(NamesIn(dir.path()), ElementsAre("step-10.a1.g1"));
  EXPECT_OK(VerifyCheckpoint(PosixFileSystem(), dir / "step-10.a1.g1", ""));
}

TEST(CheckpointWriterTest, StaleTemporariesGoAndLiveOnesStay) {
  TempDir dir;
  for (const char* name : {"step-1.a1.g1.x.tmp", "step-1.a2.g1.x.tmp", "step-1.a2.g2.x.tmp",
                           "step-1.a3.g1.x.tmp", "step-1.a1.g1", "else"}) {
    ASSERT_OK(PosixFileSystem().MakeDirectories(dir / name));
  }
  EXPECT_OK(RemoveStaleTemporaries(PosixFileSystem(), dir.path(), 2, 2));
  EXPECT_THAT(NamesIn(dir.path()),
              ElementsAre("else", "step-1.a1.g1", "step-1.a2.g2.x.tmp", "step-1.a3.g1.x.tmp"));
  EXPECT_OK(RemoveStaleTemporaries(PosixFileSystem(), dir / "none", 2, 2));
}

// Writes a checkpoint in a child that is killed before its n-th operation. Returns whether it
// lived.
bool SaveInChildKilledAt(int n, const std::string& root, const CheckpointSpec& spec) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyFileSystem fs(PosixFileSystem());
    fs.CallAt(n, [] { ::raise(SIGKILL); });
    ::_exit(WriteCheckpoint(fs, root, spec).ok() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return true;
  }
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  return false;
}

TEST(CheckpointWriterTest, AKillAtEachOperationLeavesTheOldOrTheNewCheckpointWhole) {
  CheckpointSpec older;
  CheckpointSpec newer;
  newer.step = 20;
  newer.files.push_back({"big", std::string(kHashBlockBytes + 1, 'b')});
  bool lived = false;
  int n = 1;
  for (; !lived && n < kMaxWriterOperations; ++n) {
    TempDir dir;
    ASSERT_OK_AND_ASSIGN(const WrittenCheckpoint old,
                         WriteCheckpoint(PosixFileSystem(), dir.path(), older));
    lived = SaveInChildKilledAt(n, dir.path(), newer);

    // What the next attempt does.
    ASSERT_OK(RemoveStaleTemporaries(PosixFileSystem(), dir.path(), 2, 1));
    FindRequest request;
    request.root = dir.path();
    request.job_id = older.job_id;
    request.job_name = older.job_name;
    request.attempt = 2;
    request.registered = {{old.path, 10, old.manifest_sha256}};
    request.on_bad = [&](const CheckpointCandidate& candidate, const absl::Status& status) {
      ADD_FAILURE() << "half visible: " << candidate.path << ": " << status;
    };
    ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(PosixFileSystem(), request));
    ASSERT_TRUE(found.has_value());
    const int64_t step = found->checkpoint.manifest.step;
    EXPECT_EQ(found->adopted, step == 20);
    if (lived) {
      EXPECT_EQ(step, 20);
      EXPECT_THAT(NamesIn(dir.path()), ElementsAre("step-10.a1.g1", "step-20.a1.g1"));
    } else if (step == 10) {
      EXPECT_THAT(NamesIn(dir.path()), ElementsAre("step-10.a1.g1"));
    }
  }
  EXPECT_TRUE(lived);
  EXPECT_GT(n, 18);
}

}  // namespace
}  // namespace muster
