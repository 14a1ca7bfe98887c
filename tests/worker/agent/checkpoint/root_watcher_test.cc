#include "worker/agent/checkpoint/root_watcher.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/ckpt/checkpoint_root.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/hanging_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/base/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::HangingFileSystem;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
    watcher_ =
        std::make_unique<RootWatcher>(fs, *loop_, loop_->mailbox(),
                                      RootWatcherOptions{.who = "test",
                                                         .every = absl::Milliseconds(10),
                                                         .patience = absl::Milliseconds(50),
                                                         .mount_info =
                                                             [this] {
                                                               ++mounts_asked_;
                                                               return mounts_;
                                                             }},
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
  // Runs the loop until it is so, which no change of the report need bring.
  void WaitUntil(const std::function<bool()>& done) {
    int looks = 0;
    const std::function<void()> look = [&] {
      const bool never = ++looks > 12'000;
      EXPECT_FALSE(never) << "it never came to that";
      if (never || done()) return loop_->Quit();
      loop_->After(absl::Milliseconds(5), look);
    };
    loop_->After(absl::ZeroDuration(), look);
    loop_->Run();
  }
  // Runs the loop until the watcher has asked for the mounts so often.
  void AskForMounts(int times) {
    WaitUntil([this, enough = mounts_asked_ + times] { return mounts_asked_ >= enough; });
  }
  bool Sees(const std::string& path, const std::string& identity) {
    return seen_.count(path) != 0 && seen_[path].identity() == identity;
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<RootWatcher> watcher_;
  std::string mounts_;    // as /proc tells them
  int mounts_asked_ = 0;  // how often
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
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {root, "abc1"}, {}, "other"));
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
  HangingFileSystem fs({dir_ / "hangs"});
  Start(fs);
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "hangs", "abc1"}, {}, "other"));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "sound", "abc2"}, {}, "other"));
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

// The controller asks one worker after the other for a root that nobody knows, again and again.
TEST_F(RootWatcherTest, ARootThatHangsHoldsOneThreadHoweverOftenItIsAskedAbout) {
  HangingFileSystem fs({dir_ / "hangs"});
  Start(fs);
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "sound", "abc2"}, {}, "other"));
  v1::WatchRoots claim;
  Ask(claim, dir_ / "hangs", "", "abc1");
  for (size_t i = 0; i <= RootWatcher::kMaxProbes; ++i) {
    watcher_->Watch(claim);
    watcher_->Watch({});
  }
  watcher_->Watch(claim);
  // Who is asked again says again that it hangs.
  RunUntil([&] { return Sees(dir_ / "hangs", ""); });
  EXPECT_THAT(seen_[dir_ / "hangs"].message(), HasSubstr("does its file system hang?"));
  v1::WatchRoots sound;
  Ask(sound, dir_ / "sound", "abc2");
  watcher_->Watch(sound);
  RunUntil([&] { return Sees(dir_ / "sound", "abc2"); });
  EXPECT_LE(fs.hung(), 1);
  // When it comes back, what is asked by then is looked at.
  watcher_->Watch(claim);
  fs.Release();
  RunUntil([&] { return Sees(dir_ / "hangs", "abc1"); });
  watcher_.reset();
}

TEST_F(RootWatcherTest, WhereAllThreadsHangOtherRootsAreToldWhatTheyWaitFor) {
  std::vector<std::string> dead;
  v1::WatchRoots roots;
  for (size_t i = 0; i < RootWatcher::kMaxProbes; ++i) {
    dead.push_back(dir_ / absl::StrCat("dead-", i, "/"));
    Ask(roots, dir_ / absl::StrCat("dead-", i), "abc1");
  }
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "sound", "abc2"}, {}, "other"));
  HangingFileSystem fs(dead);
  Start(fs);
  watcher_->Watch(roots);
  RunUntil([&] { return seen_.size() == dead.size(); });
  Ask(roots, dir_ / "sound", "abc2");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "sound", ""); });
  EXPECT_THAT(seen_[dir_ / "sound"].message(),
              AllOf(HasSubstr("cannot be looked at"), HasSubstr("/dead-")));
  fs.Release();
  RunUntil([&] { return Sees(dir_ / "sound", "abc2"); });
  watcher_.reset();
}

// A server that many users have roots on is gone.
TEST_F(RootWatcherTest, WhatHangsOnOneMountLeavesThreadsToOtherRoots) {
  mounts_ = absl::StrCat("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / ", dir_ / "dead",
                         " rw - nfs4 server:/ rw\n");
  HangingFileSystem fs({dir_ / "dead/"});
  v1::WatchRoots roots;
  for (size_t i = 0; i < RootWatcher::kMaxProbes; ++i) {
    Ask(roots, dir_ / absl::StrCat("dead/", i), "abc1");
  }
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "dead/0", "abc1"}, {}, "other"));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "sound", "abc2"}, {}, "other"));
  Ask(roots, dir_ / "sound", "abc2");
  Start(fs);
  watcher_->Watch(roots);
  RunUntil([&] { return seen_.size() == RootWatcher::kMaxProbes + 1; });
  EXPECT_TRUE(Sees(dir_ / "sound", "abc2"));
  EXPECT_LE(fs.hung(), static_cast<int>(RootWatcher::kMaxProbesOnMount));
  const auto behind = [&](const auto& seen) {
    return seen.second.message().find("cannot be looked at") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(seen_.begin(), seen_.end(), behind),
            static_cast<ptrdiff_t>(RootWatcher::kMaxProbes - RootWatcher::kMaxProbesOnMount))
      << "they say what they wait for";
  fs.Release();
  RunUntil([&] { return Sees(dir_ / "dead/0", "abc1"); });
  EXPECT_TRUE(Sees(dir_ / "sound", "abc2"));
  watcher_.reset();
}

// The network comes up after the agent, say.
TEST_F(RootWatcherTest, AMountThatCameLaterIsKnownToo) {
  HangingFileSystem fs({dir_ / "dead/"});
  fs.Release();
  v1::WatchRoots roots;
  for (size_t i = 0; i < RootWatcher::kMaxProbes; ++i) {
    const std::string path = dir_ / absl::StrCat("dead/", i);
    ASSERT_OK(ClaimRoot(PosixFileSystem(), {path, "abc1"}, {}, "other"));
    Ask(roots, path, "abc1");
  }
  Start(fs);
  watcher_->Watch(roots);
  RunUntil([&] { return seen_.size() == RootWatcher::kMaxProbes; });
  mounts_ = absl::StrCat("30 22 0:40 / ", dir_ / "dead", " rw - nfs4 server:/ rw\n");
  AskForMounts(50);  // many looks at each later it is known
  fs.Hang();
  RunUntil([&] {
    return std::none_of(seen_.begin(), seen_.end(),
                        [](const auto& seen) { return seen.second.identity() == "abc1"; });
  });
  EXPECT_LE(fs.hung(), static_cast<int>(RootWatcher::kMaxProbesOnMount));
  fs.Release();
  watcher_.reset();
}

// `umount -l` of a dead server, and another in its place under the same name.
TEST_F(RootWatcherTest, WhatHangsOnAMountHoldsUpNothingOnTheNextOneOfItsName) {
  const auto mount = [&](int id) {
    return absl::StrCat(id, " 22 0:40 / ", dir_ / "ckpt", " rw - nfs4 server:/ rw\n");
  };
  mounts_ = mount(30);
  HangingFileSystem fs({dir_ / "ckpt/dead-"});
  v1::WatchRoots roots;
  for (size_t i = 0; i < RootWatcher::kMaxProbesOnMount; ++i) {
    Ask(roots, dir_ / absl::StrCat("ckpt/dead-", i), "abc1");
  }
  Start(fs);
  watcher_->Watch(roots);
  RunUntil([&] { return seen_.size() == RootWatcher::kMaxProbesOnMount; });
  ASSERT_EQ(fs.hung(), static_cast<int>(RootWatcher::kMaxProbesOnMount));
  fs.LetPass();
  mounts_ = mount(31);
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "ckpt/sound", "abc2"}, {}, "other"));
  Ask(roots, dir_ / "ckpt/sound", "abc2");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "ckpt/sound", "abc2"); });
  EXPECT_EQ(fs.hung(), static_cast<int>(RootWatcher::kMaxProbesOnMount)) << "they still hang";
  fs.Release();
  watcher_.reset();
}

// The same, and the root itself lay on it.
TEST_F(RootWatcherTest, ARootThatIsMountedAnewIsSeenThoughALookHangsOnItsOldMount) {
  const auto mount = [&](int id) {
    return absl::StrCat(id, " 22 0:40 / ", dir_ / "ckpt", " rw - nfs4 server:/ rw\n");
  };
  mounts_ = mount(30);
  HangingFileSystem fs({dir_ / "ckpt/"});
  Start(fs);
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "ckpt", "abc1"}, {}, "other"));
  v1::WatchRoots roots;
  Ask(roots, dir_ / "ckpt", "abc1");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "ckpt", ""); });
  fs.LetPass();
  AskForMounts(5);
  EXPECT_TRUE(Sees(dir_ / "ckpt", "")) << "as long as nothing else is mounted there";
  mounts_ = mount(31);
  RunUntil([&] { return Sees(dir_ / "ckpt", "abc1"); });
  EXPECT_EQ(fs.hung(), 1) << "it still hangs";
  fs.Release();
  AskForMounts(20);
  EXPECT_TRUE(Sees(dir_ / "ckpt", "abc1")) << "what the old look found is news to nobody";
  watcher_.reset();
}

TEST_F(RootWatcherTest, OnlySoManyThreadsAreLeftBehindOnOldMounts) {
  HangingFileSystem fs({dir_ / "ckpt/"});
  Start(fs);
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "ckpt", "abc1"}, {}, "other"));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "sound", "abc2"}, {}, "other"));
  v1::WatchRoots roots;
  Ask(roots, dir_ / "ckpt", "abc1");
  const auto mount = [&](int id) {
    mounts_ = absl::StrCat(id, " 22 0:40 / ", dir_ / "ckpt", " rw - nfs4 server:/ rw\n");
  };
  mount(1);
  watcher_->Watch(roots);
  const int most = static_cast<int>(RootWatcher::kMaxLeftBehind) + 1;
  for (int i = 1; i <= most + 3 && !HasFailure(); ++i) {
    mount(i);
    WaitUntil([&] { return fs.hung() >= std::min(i, most); });
  }
  AskForMounts(5);
  EXPECT_EQ(fs.hung(), most);
  Ask(roots, dir_ / "sound", "abc2");
  watcher_->Watch(roots);
  RunUntil([&] { return Sees(dir_ / "sound", "abc2"); });
  fs.Release();
  RunUntil([&] { return Sees(dir_ / "ckpt", "abc1"); });
  // Those that came back count no more.
  fs.Hang();
  RunUntil([&] { return Sees(dir_ / "ckpt", ""); });
  fs.LetPass();
  mount(99);
  RunUntil([&] { return Sees(dir_ / "ckpt", "abc1"); });
  fs.Release();
  watcher_.reset();
}

// An automounter gives up, and the folder on which it would have mounted is there.
TEST_F(RootWatcherTest, AClaimThatAnswersTooLateMakesNothing) {
  HangingFileSystem fs({dir_ / "hangs"});
  Start(fs);
  std::filesystem::create_directories(dir_ / "hangs");
  v1::WatchRoots claim;
  Ask(claim, dir_ / "hangs", "", "abc1");
  watcher_->Watch(claim);
  RunUntil([&] { return Sees(dir_ / "hangs", ""); });
  watcher_->Watch({});
  fs.Release();
  watcher_.reset();  // waits for its thread
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "hangs"));
}

TEST_F(RootWatcherTest, WhereThereIsNoRoomForAThreadTheRootsAreLookedAtByTurns) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space that is taken away here";
#endif
  HangingFileSystem fs({dir_ / "ckpt-0"});
  Start(fs);
  v1::WatchRoots first;
  Ask(first, dir_ / "ckpt-0", "abc1");
  v1::WatchRoots all;
  for (int i = 0; i < 8; ++i) {
    const std::string path = dir_ / absl::StrCat("ckpt-", i);
    ASSERT_OK(ClaimRoot(PosixFileSystem(), {path, "abc1"}, {}, "other"));
    Ask(all, path, "abc1");
  }
  watcher_->Watch(first);
  while (fs.hung() == 0) absl::SleepFor(absl::Milliseconds(1));
  // What the heap has in store serves the watcher itself.
  std::vector<std::string>(64, std::string(8192, 'x')).clear();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit none = {.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
  watcher_->Watch(all);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  fs.Release();
  RunUntil([&] {
    return std::all_of(all.roots().begin(), all.roots().end(),
                       [&](const auto& root) { return Sees(root.path(), "abc1"); });
  });
  watcher_.reset();
}

TEST_F(RootWatcherTest, WhatIsNotAskedAboutAnyMoreIsNotReported) {
  Start(PosixFileSystem());
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "a", "abc1"}, {}, "other"));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "b", "abc2"}, {}, "other"));
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
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "ckpt", "abc1"}, {}, "other"));
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
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_ / "ckpt", "abc1"}, {}, "other"));
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
