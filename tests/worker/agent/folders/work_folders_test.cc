#include "worker/agent/folders/work_folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/os/sha256.h"
#include "common/upload/pack_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/base/event_loop.h"

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

// A controller that gives archives out as fast as it is let. Thread-safe.
class Archives {
 public:
  struct Seen {
    std::vector<std::string> begun;    // by hash
    std::vector<std::string> stopped;  // of those
    size_t pieces = 0;                 // of the one under way
  };

  void Add(const std::string& sha256, std::string archive) {
    MutexLock lock(mutex_);
    archives_[sha256] = std::move(archive);
  }
  // Of this one so many pieces come, and no end before Release.
  void HoldBack(const std::string& sha256, size_t pieces) {
    MutexLock lock(mutex_);
    held_back_ = sha256;
    pieces_ = pieces;
    changed_.NotifyAll();
  }
  void Release() { HoldBack("", 0); }
  Seen seen() {
    MutexLock lock(mutex_);
    return seen_;
  }

  absl::StatusOr<std::string> Fetch(const std::string& sha256, const std::stop_token& stop,
                                    const std::function<void()>& on_piece) {
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(mutex_);
      changed_.NotifyAll();
    });
    MutexLock lock(mutex_);
    seen_.begun.push_back(sha256);
    seen_.pieces = 0;
    while (held_back_ == sha256 && !stop.stop_requested()) {
      if (seen_.pieces < pieces_) {
        on_piece();
        ++seen_.pieces;
      } else {
        changed_.Wait(mutex_);
      }
    }
    if (stop.stop_requested()) {
      seen_.stopped.push_back(sha256);
      return absl::CancelledError("stopped");
    }
    const auto archive = archives_.find(sha256);
    if (archive == archives_.end()) return absl::NotFoundError("no such upload");
    return archive->second;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> archives_ MUSTER_GUARDED_BY(mutex_);
  std::string held_back_ MUSTER_GUARDED_BY(mutex_);
  size_t pieces_ MUSTER_GUARDED_BY(mutex_) = 0;
  Seen seen_ MUSTER_GUARDED_BY(mutex_);
};

class WorkFoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = EventLoop::Create(clock_);
    ASSERT_OK(loop);
    loop_ = *std::move(loop);
    folders_ = std::make_unique<WorkFolders>(
        PosixFileSystem(), trash_, dir_ / "work", dir_ / "cache",
        [this](const std::string& sha256, const std::stop_token& stop,
               const std::function<void()>& on_piece) {
          return archives_.Fetch(sha256, stop, on_piece);
        },
        loop_->mailbox());
    a_ = Pack("a");
    b_ = Pack("b");
  }
  PackedFolder Pack(const std::string& content) {
    files::create_directories(dir_ / content);
    std::ofstream(dir_ / content + "/file") << content;
    PackedFolder packed = *PackFolder(dir_ / content);
    archives_.Add(packed.sha256, packed.archive);
    return packed;
  }
  // How that went comes to results_.
  void Begin(const v1::Fence& fence, const PackedFolder& packed) {
    folders_->Prepare(fence, packed.sha256, [this, job = fence.job_id()](const absl::Status& done) {
      results_[job] = done;
    });
  }
  absl::Status Prepare(const v1::Fence& fence, const PackedFolder& packed) {
    results_.erase(fence.job_id());
    Begin(fence, packed);
    RunUntil([&] { return results_.contains(fence.job_id()); });
    return results_[fence.job_id()];
  }
  void RunUntil(const std::function<bool()>& done) {
    int looks = 0;
    const std::function<void()> look = [&] {
      const bool never = ++looks > 30'000;
      EXPECT_FALSE(never) << "it never came to that";
      if (never || done()) return loop_->Quit();
      loop_->After(absl::Milliseconds(2), look);
    };
    loop_->After(absl::ZeroDuration(), look);
    loop_->Run();
  }
  bool HasFile(const v1::Fence& fence) { return files::exists(folders_->PathOf(fence) + "/file"); }

  TempDir dir_;
  RealClock clock_;
  Archives archives_;
  PackedFolder a_, b_;
  std::map<uint64_t, absl::Status> results_;  // by job
  std::unique_ptr<EventLoop> loop_;
  Trash trash_{PosixFileSystem(), dir_ / "trash"};
  std::unique_ptr<WorkFolders> folders_;
};

TEST_F(WorkFoldersTest, AnAttemptHasAFolderOfItsOwnUntilItIsReleased) {
  const v1::Fence first = FenceOf(1, 1);
  ASSERT_OK(Prepare(first, a_));
  const std::string file = folders_->PathOf(first) + "/file";
  EXPECT_TRUE(files::exists(file));
  std::ofstream(file) << "changed by the first attempt";
  folders_->Release(first);
  ASSERT_TRUE(muster::testing::WaitUntil(absl::Minutes(1),
                                         [&] { return !files::exists(folders_->PathOf(first)); }));
  folders_->Release(first);
  ASSERT_OK(Prepare(FenceOf(1, 2), a_));
  EXPECT_TRUE(HasFile(FenceOf(1, 2)));
  EXPECT_EQ(archives_.seen().begun.size(), 1u) << "it is fetched once";
}

TEST_F(WorkFoldersTest, WhatCannotBeUnpackedLeavesNothing) {
  archives_.Add(a_.sha256, "something else");
  EXPECT_THAT(Prepare(FenceOf(1, 1), a_), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Prepare(FenceOf(1, 2), {.sha256 = std::string(64, 'f')}),
              StatusIs(absl::StatusCode::kNotFound));
  Sha256 hash;
  hash.Update("no archive");
  const std::string sha256 = hash.FinishHex();
  archives_.Add(sha256, "no archive");
  EXPECT_THAT(Prepare(FenceOf(1, 3), {.sha256 = sha256}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_FALSE(files::exists(folders_->PathOf(FenceOf(1, attempt))));
  }
}

TEST_F(WorkFoldersTest, AFolderWhoseArchiveIsKeptDoesNotWaitForAnothersFetch) {
  ASSERT_OK(Prepare(FenceOf(1, 1), a_));
  archives_.HoldBack(b_.sha256, 0);
  Begin(FenceOf(2, 1), b_);
  RunUntil([&] { return archives_.seen().begun.size() == 2; });
  ASSERT_OK(Prepare(FenceOf(3, 1), a_));
  EXPECT_TRUE(HasFile(FenceOf(3, 1)));
  EXPECT_FALSE(results_.contains(2));
  archives_.Release();
  RunUntil([&] { return results_.contains(2); });
  EXPECT_OK(results_[2]);
}

TEST_F(WorkFoldersTest, OneFetchServesAllWhoWaitForIt) {
  archives_.HoldBack(a_.sha256, 0);
  Begin(FenceOf(1, 1), a_);
  Begin(FenceOf(2, 1), b_);
  Begin(FenceOf(3, 1), a_);
  RunUntil([&] { return folders_->PiecesFetched(FenceOf(3, 1)).has_value(); });
  archives_.HoldBack(b_.sha256, 0);
  RunUntil([&] { return results_.contains(1) && results_.contains(3); });
  EXPECT_TRUE(HasFile(FenceOf(1, 1)));
  EXPECT_TRUE(HasFile(FenceOf(3, 1)));
  archives_.Release();
  RunUntil([&] { return results_.contains(2); });
  EXPECT_EQ(archives_.seen().begun, (std::vector<std::string>{a_.sha256, b_.sha256}));
}

TEST_F(WorkFoldersTest, AFetchThatNobodyWaitsForAnyMoreIsEnded) {
  archives_.HoldBack(a_.sha256, 0);
  Begin(FenceOf(1, 1), a_);
  Begin(FenceOf(2, 1), a_);
  Begin(FenceOf(3, 1), b_);
  RunUntil([&] {
    return archives_.seen().begun.size() == 1 && folders_->PiecesFetched(FenceOf(3, 1)).has_value();
  });
  folders_->Release(FenceOf(1, 1));
  EXPECT_TRUE(archives_.seen().stopped.empty()) << "another one waits for it";
  folders_->Release(FenceOf(2, 1));
  RunUntil([&] { return results_.contains(3); });
  EXPECT_OK(results_[3]);
  EXPECT_EQ(archives_.seen().stopped, std::vector<std::string>{a_.sha256});
  EXPECT_EQ(results_.size(), 1u) << "those who gave it up hear nothing of it";
  // The next attempt fetches it anew.
  archives_.Release();
  ASSERT_OK(Prepare(FenceOf(1, 2), a_));
}

TEST_F(WorkFoldersTest, WhatWasGivenUpBeforeItsTurnIsNotFetched) {
  archives_.HoldBack(a_.sha256, 0);
  Begin(FenceOf(1, 1), a_);
  Begin(FenceOf(2, 1), b_);
  RunUntil([&] { return folders_->PiecesFetched(FenceOf(2, 1)).has_value(); });
  folders_->Release(FenceOf(2, 1));
  archives_.Release();
  RunUntil([&] { return results_.contains(1); });
  folders_.reset();  // waits for its threads
  EXPECT_EQ(archives_.seen().begun, std::vector<std::string>{a_.sha256});
}

// Also those whose own has not begun: they wait for one that does.
TEST_F(WorkFoldersTest, WhoWaitsForAFetchSeesItGetOn) {
  ASSERT_OK(Prepare(FenceOf(1, 1), Pack("c")));
  archives_.HoldBack(a_.sha256, 2);
  Begin(FenceOf(2, 1), a_);
  Begin(FenceOf(3, 1), b_);
  for (const v1::Fence& fence : {FenceOf(2, 1), FenceOf(3, 1)}) {
    RunUntil([&] { return folders_->PiecesFetched(fence) == 2; });
  }
  EXPECT_EQ(folders_->PiecesFetched(FenceOf(1, 1)), std::nullopt);
  archives_.HoldBack(a_.sha256, 3);
  for (const v1::Fence& fence : {FenceOf(2, 1), FenceOf(3, 1)}) {
    RunUntil([&] { return folders_->PiecesFetched(fence) == 3; });
  }
  archives_.Release();
  RunUntil([&] { return results_.contains(2) && results_.contains(3); });
  EXPECT_EQ(folders_->PiecesFetched(FenceOf(2, 1)), std::nullopt);
}

TEST_F(WorkFoldersTest, TheEndDoesNotWaitForAFetch) {
  archives_.HoldBack(a_.sha256, 0);
  Begin(FenceOf(1, 1), a_);
  RunUntil([&] { return archives_.seen().begun.size() == 1; });
  folders_.reset();
  EXPECT_EQ(archives_.seen().stopped.size(), 1u);
}

TEST_F(WorkFoldersTest, WhatAnEarlierLifeLeftIsRemoved) {
  files::create_directories(dir_ / "work/job-9.a1.g1");
  folders_->ClearLeftovers();
  EXPECT_FALSE(files::exists(dir_ / "work"));
  ASSERT_OK(Prepare(FenceOf(1, 2), a_));
  EXPECT_TRUE(HasFile(FenceOf(1, 2)));
}

}  // namespace
}  // namespace muster::worker
