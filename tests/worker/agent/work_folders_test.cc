#include "worker/agent/work_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/clock.h"
#include "common/upload/pack_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

namespace files = std::filesystem;

v1::Fence FenceOf(uint64_t job, uint32_t attempt) {
  v1::Fence fence;
  fence.set_job_id(job);
  fence.set_attempt(attempt);
  fence.set_generation(1);
  return fence;
}

class WorkFoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files::create_directories(dir_ / "in");
    std::ofstream(dir_ / "in/file") << "content";
    packed_ = *PackFolder(dir_ / "in");
    auto loop = EventLoop::Create(clock_);
    ASSERT_OK(loop);
    loop_ = *std::move(loop);
    folders_ = std::make_unique<WorkFolders>(
        PosixFileSystem(), trash_, dir_ / "work", dir_ / "cache",
        UploadSource{
            .fetch = [this](const std::string&) -> absl::StatusOr<std::string> { return archive_; },
            .cancel = nullptr},
        loop_->mailbox());
    archive_ = packed_.archive;
  }
  absl::Status Prepare(const v1::Fence& fence) {
    absl::Status result = absl::UnknownError("never called");
    folders_->Prepare(fence, packed_.sha256, [&](const absl::Status& status) {
      result = status;
      loop_->Quit();
    });
    loop_->Run();
    return result;
  }

  TempDir dir_;
  RealClock clock_;
  PackedFolder packed_;
  std::string archive_;
  std::unique_ptr<EventLoop> loop_;
  Trash trash_{PosixFileSystem(), dir_ / "trash"};
  std::unique_ptr<WorkFolders> folders_;
};

TEST_F(WorkFoldersTest, AnAttemptHasAFolderOfItsOwnUntilItIsReleased) {
  const v1::Fence first = FenceOf(1, 1);
  ASSERT_OK(Prepare(first));
  const std::string file = folders_->PathOf(first) + "/file";
  EXPECT_TRUE(files::exists(file));
  std::ofstream(file) << "changed by the first attempt";
  folders_->Release(first);
  ASSERT_TRUE(muster::testing::WaitUntil(absl::Minutes(1),
                                         [&] { return !files::exists(folders_->PathOf(first)); }));
  folders_->Release(first);
}

TEST_F(WorkFoldersTest, WhatCannotBeUnpackedLeavesNothing) {
  archive_ = "something else";
  EXPECT_THAT(Prepare(FenceOf(1, 1)), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE(files::exists(folders_->PathOf(FenceOf(1, 1))));
}

TEST_F(WorkFoldersTest, WhatAnEarlierLifeLeftIsRemoved) {
  files::create_directories(dir_ / "work/job-9.a1.g1");
  folders_->ClearLeftovers();
  EXPECT_FALSE(files::exists(dir_ / "work"));
  ASSERT_OK(Prepare(FenceOf(1, 2)));
  EXPECT_TRUE(files::exists(folders_->PathOf(FenceOf(1, 2)) + "/file"));
}

}  // namespace
}  // namespace muster::worker
