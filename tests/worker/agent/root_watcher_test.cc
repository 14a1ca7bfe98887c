#include "worker/agent/root_watcher.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/ckpt/checkpoint_root.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

// Reads beneath `hangs` do not come back before Release.
class HangingFileSystem final : public FileSystem {
 public:
  explicit HangingFileSystem(std::string hangs) : hangs_(std::move(hangs)) {}
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override {
    return real_.CreateExclusive(path, mode);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    if (path.rfind(hangs_, 0) == 0) {
      MutexLock lock(mutex_);
      while (!released_) changed_.Wait(mutex_);
    }
    return real_.ReadFile(path, max_bytes);
  }
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t bytes) override {
    return real_.ReadAt(path, offset, buffer, bytes);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    return real_.FileSize(path);
  }
  absl::StatusOr<bool> Exists(const std::string& path) override { return real_.Exists(path); }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& path) override {
    return real_.List(path);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    return real_.MakeDirectories(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return real_.Rename(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override { return real_.SyncDirectory(path); }
  absl::Status RemoveFile(const std::string& path) override { return real_.RemoveFile(path); }
  absl::Status RemoveTree(const std::string& path) override { return real_.RemoveTree(path); }

 private:
  FileSystem& real_ = PosixFileSystem();
  const std::string hangs_;
  Mutex mutex_;
  CondVar changed_;
  bool released_ MUSTER_GUARDED_BY(mutex_) = false;
};

class RootWatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = EventLoop::Create(clock_);
    ASSERT_OK(loop);
    loop_ = *std::move(loop);
  }
  void TearDown() override {
    watcher_.reset();
    loop_->FinishSenders(absl::Seconds(10));
  }

  void Start(FileSystem& fs) {
    watcher_ = std::make_unique<RootWatcher>(
        fs, *loop_, loop_->mailbox(),
        RootWatcherOptions{
            .who = "test", .every = absl::Milliseconds(10), .patience = absl::Milliseconds(50)},
        [this] {
          seen_.clear();
          const v1::RootReport report = watcher_->Report();
          for (const v1::RootReport::Root& root : report.roots()) {
            seen_[root.path()] = root;
          }
          if (done_ && done_()) loop_->Quit();
        });
  }
  static void Ask(v1::WatchRoots& roots, const std::string& path, const std::string& identity,
                  const std::string& claim = "") {
    v1::WatchRoots::Root& root = *roots.add_roots();
    root.set_path(path);
    root.set_identity(identity);
    root.set_claim(claim);
  }
  // Runs the loop until it is so, which a change of the report must bring.
  void RunUntil(std::function<bool()> done) {
    done_ = std::move(done);
    const auto limit = loop_->After(absl::Seconds(60), [this] {
      ADD_FAILURE() << "it never came to that";
      loop_->Quit();
    });
    loop_->Run();
    loop_->Cancel(limit);
    done_ = nullptr;
  }
  bool Sees(const std::string& path, const std::string& identity) {
    return seen_.count(path) != 0 && seen_[path].identity() == identity;
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<RootWatcher> watcher_;
  std::map<std::string, v1::RootReport::Root> seen_;
  std::function<bool()> done_;
};

TEST_F(RootWatcherTest, ARootThatNobodyKnowsIsClaimed) {
  Start(PosixFileSystem());
  const std::string root = dir_ / "ckpt";
  v1::WatchRoots unknown;
  Ask(unknown, root, "", "abc1");
  watcher_->Watch(unknown);
  RunUntil([&] { return Sees(root, "abc1"); });
  // From then on it is known to the controller, and says so without a gap.
  v1::WatchRoots known;
  Ask(known, root, "abc1");
  watcher_->Watch(known);
  EXPECT_TRUE(Sees(root, "abc1"));
}

TEST_F(RootWatcherTest, ARootThatItMakesIsOpenToOthersWhateverTheUmask) {
  const mode_t mask = ::umask(0077);
  Start(PosixFileSystem());
  const std::string root = dir_ / "runs/ckpt";
  v1::WatchRoots unknown;
  Ask(unknown, root, "", "abc1");
  watcher_->Watch(unknown);
  RunUntil([&] { return Sees(root, "abc1"); });
  ::umask(mask);
  const auto mode = [](const std::string& path) {
    return static_cast<int>(std::filesystem::status(path).permissions());
  };
  EXPECT_EQ(mode(dir_ / "runs"), 0755);
  EXPECT_EQ(mode(root), 0755);
  EXPECT_EQ(mode(root + "/" + kRootMarker), 0644);
}

TEST_F(RootWatcherTest, WhatVanishesIsMissedAndSeenAgainWhenItIsBack) {
  Start(PosixFileSystem());
  const std::string root = dir_ / "ckpt";
  ASSERT_OK(ClaimRoot(PosixFileSystem(), root, "abc1", {}, "other"));
  v1::WatchRoots roots;
  Ask(roots, root, "abc1");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(root, "abc1"); });
  std::filesystem::rename(root, dir_ / "away");
  RunUntil([&] { return Sees(root, ""); });
  EXPECT_THAT(seen_[root].message(), HasSubstr("is it mounted?"));
  EXPECT_FALSE(std::filesystem::exists(root)) << "nothing is made in its place";
  std::filesystem::rename(dir_ / "away", root);
  RunUntil([&] { return Sees(root, "abc1"); });
}

TEST_F(RootWatcherTest, ARootThatHangsIsSaidToAndHoldsUpNoOther) {
  HangingFileSystem fs(dir_ / "hangs");
  Start(fs);
  ASSERT_OK(ClaimRoot(PosixFileSystem(), dir_ / "hangs", "abc1", {}, "other"));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), dir_ / "sound", "abc2", {}, "other"));
  v1::WatchRoots roots;
  Ask(roots, dir_ / "hangs", "abc1");
  Ask(roots, dir_ / "sound", "abc2");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "hangs", "") && Sees(dir_ / "sound", "abc2"); });
  EXPECT_THAT(seen_[dir_ / "hangs"].message(), HasSubstr("does its file system hang?"));
  fs.Release();
  RunUntil([&] { return Sees(dir_ / "hangs", "abc1"); });
  // It may be used by a thread until the very end.
  watcher_.reset();
  loop_->FinishSenders(absl::Seconds(10));
}

TEST_F(RootWatcherTest, WhatIsNotAskedAboutAnyMoreIsNotReported) {
  Start(PosixFileSystem());
  ASSERT_OK(ClaimRoot(PosixFileSystem(), dir_ / "a", "abc1", {}, "other"));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), dir_ / "b", "abc2", {}, "other"));
  v1::WatchRoots both;
  Ask(both, dir_ / "a", "abc1");
  Ask(both, dir_ / "b", "abc2");
  watcher_->Watch(both);
  RunUntil([&] { return Sees(dir_ / "a", "abc1") && Sees(dir_ / "b", "abc2"); });
  v1::WatchRoots one;
  Ask(one, dir_ / "b", "abc2");
  watcher_->Watch(one);
  EXPECT_EQ(watcher_->Report().roots_size(), 1);
  EXPECT_EQ(watcher_->Report().roots(0).path(), dir_ / "b");
}

TEST_F(RootWatcherTest, WhoCannotWriteThereDoesNotSeeIt) {
  // Root may write anywhere: a file stands where the probe's would be made.
  ASSERT_OK(ClaimRoot(PosixFileSystem(), dir_ / "ckpt", "abc1", {}, "other"));
  std::filesystem::create_directories(dir_ / "ckpt/.muster-probe-test/full");
  Start(PosixFileSystem());
  v1::WatchRoots roots;
  Ask(roots, dir_ / "ckpt", "abc1");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "ckpt", ""); });
  EXPECT_THAT(seen_[dir_ / "ckpt"].message(), HasSubstr(".muster-probe-test"));
}

// What is in it can be read, and must be deleted.
TEST_F(RootWatcherTest, AFullRootIsSeenAndProbedUntilThereIsRoom) {
  ASSERT_OK(ClaimRoot(PosixFileSystem(), dir_ / "ckpt", "abc1", {}, "other"));
  FaultyFileSystem fs(PosixFileSystem());
  fs.FailAt(1, absl::ResourceExhaustedError("no space left"), /*count=*/5);
  Start(fs);
  v1::WatchRoots roots;
  Ask(roots, dir_ / "ckpt", "abc1");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "ckpt", "abc1"); });
  EXPECT_THAT(seen_[dir_ / "ckpt"].message(), HasSubstr("no space left"));
  RunUntil([&] { return seen_[dir_ / "ckpt"].message().empty(); });
  EXPECT_TRUE(Sees(dir_ / "ckpt", "abc1"));
}

}  // namespace
}  // namespace muster::worker
