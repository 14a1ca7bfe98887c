#include "worker/agent/base/side_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <set>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/agent/side_jobs.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/base/path_watch.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class SideThreadsTest : public ::testing::Test {
 protected:
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
};

TEST_F(SideThreadsTest, AJobThatHangsHoldsUpNoOther) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  SideThreads threads(loop_->mailbox());
  int hung = 0;
  for (int i = 0; i < 3; ++i) {
    threads.Enqueue([&, released]() -> SideThreads::Completion {
      released.wait();
      return [&] {
        if (++hung == 3) loop_->Quit();
      };
    });
  }
  bool done = false;
  threads.Enqueue([&]() -> SideThreads::Completion {
    return [&] {
      done = true;
      loop_->Quit();
    };
  });
  loop_->Run();
  EXPECT_TRUE(done);
  EXPECT_EQ(hung, 0);
  release.set_value();
  loop_->Run();
  EXPECT_EQ(hung, 3);
}

TEST_F(SideThreadsTest, ThreadsAreBoundedAndWhatWaitsComesLater) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  SideThreads threads(loop_->mailbox(), /*most=*/2);
  for (int i = 0; i < 2; ++i) {
    threads.Enqueue([released]() -> SideThreads::Completion {
      released.wait();
      return nullptr;
    });
  }
  threads.Enqueue([&]() -> SideThreads::Completion { return [&] { loop_->Quit(); }; });
  loop_->After(absl::Milliseconds(20), [&] {
    EXPECT_EQ(threads.busy(), 2u);
    release.set_value();
  });
  loop_->Run();
}

TEST_F(SideThreadsTest, WhereThereIsNoRoomForAThreadJobsWaitForThoseThatThereAre) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space that is taken away here";
#endif
  std::promise<void> release;
  SideThreads threads(loop_->mailbox());
  std::promise<void> began;
  threads.Enqueue([&]() -> SideThreads::Completion {
    began.set_value();
    release.get_future().wait();
    return nullptr;
  });
  began.get_future().wait();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit none = {.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
  for (int i = 0; i < 4; ++i) threads.Enqueue([]() -> SideThreads::Completion { return nullptr; });
  threads.Enqueue([&]() -> SideThreads::Completion { return [&] { loop_->Quit(); }; });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  release.set_value();
  loop_->Run();
}

TEST_F(SideThreadsTest, TheEndDoesNotWaitForWhatHangs) {
  // Outlive the threads that are left behind.
  static std::promise<void>* const release = new std::promise<void>();
  static std::promise<void>* const began_job = new std::promise<void>();
  static std::promise<void>* const ended = new std::promise<void>();
  absl::Duration began;
  {
    SideThreads threads(loop_->mailbox());
    threads.Enqueue([stopping = threads.stopping()]() -> SideThreads::Completion {
      began_job->set_value();
      release->get_future().wait();
      if (*stopping) ended->set_value();
      return [] { ADD_FAILURE() << "it came too late"; };
    });
    began_job->get_future().wait();
    began = clock_.SinceBoot();
  }
  EXPECT_GE(clock_.SinceBoot() - began, SideThreads::kEndPatience);
  release->set_value();
  ended->get_future().wait();
  loop_->After(absl::Milliseconds(20), [&] { loop_->Quit(); });
  loop_->Run();
}

TEST_F(SideThreadsTest, AStallIsToldOnceWithThePathThatIsWaitedFor) {
  const auto watch = std::make_shared<PathWatch>();
  watch->Touch("/mnt/dead/data");
  std::vector<absl::Status> stalls;
  WatchForStall(*loop_, watch, absl::Milliseconds(40),
                [&](const absl::Status& stall) { stalls.push_back(stall); });
  loop_->After(absl::Milliseconds(200), [&] { loop_->Quit(); });
  loop_->Run();
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_THAT(stalls[0],
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("/mnt/dead/data")));
}

TEST_F(SideThreadsTest, AJobHasItsPatienceFromWhenAThreadTakesItUp) {
  SideThreads threads(loop_->mailbox(), /*most=*/1);
  EnqueueSlow(threads);
  bool done = false;
  const auto watch = std::make_shared<PathWatch>();
  EnqueueWatched(
      *loop_, threads,
      [&done, watch, this]() -> SideThreads::Completion {
        watch->Touch("/data");
        return [&done, this] {
          done = true;
          loop_->Quit();
        };
      },
      watch, kPatienceBehindSlow, [](const absl::Status& stall, bool) { ADD_FAILURE() << stall; });
  loop_->Run();
  EXPECT_TRUE(done);
}

TEST_F(SideThreadsTest, AJobThatHangsIsToldSinceItHasAThread) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  SideThreads threads(loop_->mailbox(), /*most=*/1);
  const auto watch = std::make_shared<PathWatch>();
  absl::Status told;
  EnqueueWatched(
      *loop_, threads,
      [watch, released]() -> SideThreads::Completion {
        watch->Touch("/mnt/dead/data");
        released.wait();
        return nullptr;
      },
      watch, absl::Milliseconds(40),
      [&](const absl::Status& stall, bool began) {
        EXPECT_TRUE(began);
        told = stall;
        loop_->Quit();
      });
  loop_->Run();
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("/mnt/dead/data")));
  release.set_value();
}

TEST_F(SideThreadsTest, AJobForWhichNoThreadComesFreeIsTakenBackWithWhatTheyWaitFor) {
  SideThreads threads(loop_->mailbox(), /*most=*/1);
  HungJob hung(threads, "/mnt/dead/data");
  std::atomic<bool> ran = false;
  absl::Status told;
  EnqueueWatched(
      *loop_, threads,
      [&ran]() -> SideThreads::Completion {
        ran = true;
        return nullptr;
      },
      std::make_shared<PathWatch>(), absl::Milliseconds(40),
      [&](const absl::Status& stall, bool began) {
        EXPECT_FALSE(began);
        told = stall;
        loop_->Quit();
      });
  loop_->Run();
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("/mnt/dead/data")));
  hung.Release();
  threads.Enqueue([&]() -> SideThreads::Completion { return [&] { loop_->Quit(); }; });
  loop_->Run();
  EXPECT_FALSE(ran);
}

TEST_F(SideThreadsTest, WhatHangsTogetherLeavesThreadsToOthers) {
  SideThreads threads(loop_->mailbox(), /*most=*/3, /*most_of_group=*/2);
  HungJob one(threads, "/mnt/dead/1", "/mnt/dead");
  HungJob two(threads, "/mnt/dead/2", "/mnt/dead");
  std::atomic<bool> ran = false;
  bool done = false;
  absl::Status told;
  const auto end_after_both = [&] {
    if (done && !told.ok()) loop_->Quit();
  };
  EnqueueWatched(
      *loop_, threads,
      [&ran]() -> SideThreads::Completion {
        ran = true;
        return nullptr;
      },
      std::make_shared<PathWatch>("/mnt/dead"), absl::Milliseconds(40),
      [&](const absl::Status& stall, bool began) {
        EXPECT_FALSE(began);
        told = stall;
        end_after_both();
      });
  threads.Enqueue(
      [&]() -> SideThreads::Completion {
        return [&] {
          done = true;
          end_after_both();
        };
      },
      std::make_shared<PathWatch>("/mnt/sound"));
  loop_->Run();
  EXPECT_FALSE(ran);
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("all 2 threads")));
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("/mnt/dead/")));
}

TEST_F(SideThreadsTest, WhoWaitsForOthersOfItsGroupComesWhenOneOfThemIsDone) {
  SideThreads threads(loop_->mailbox(), /*most=*/3, /*most_of_group=*/1);
  HungJob first(threads, "/mnt/slow/1", "/mnt/slow");
  bool done = false;
  threads.Enqueue(
      [&]() -> SideThreads::Completion {
        return [&] {
          done = true;
          loop_->Quit();
        };
      },
      std::make_shared<PathWatch>("/mnt/slow"));
  loop_->After(absl::Milliseconds(20), [&] {
    EXPECT_FALSE(done);
    first.Release();
  });
  loop_->Run();
  EXPECT_TRUE(done);
}

TEST_F(SideThreadsTest, WhatGetsOnOrIsDoneDoesNotStall) {
  const auto slow = std::make_shared<PathWatch>();
  auto done = std::make_shared<PathWatch>();
  const auto fail = [](const absl::Status& stall) { ADD_FAILURE() << stall; };
  WatchForStall(*loop_, slow, absl::Milliseconds(200), fail);
  WatchForStall(*loop_, done, absl::Milliseconds(200), fail);
  done.reset();
  for (int i = 1; i <= 20; ++i) {
    loop_->After(absl::Milliseconds(20 * i), [slow] { slow->GetOn(); });
  }
  loop_->After(absl::Milliseconds(410), [&] { loop_->Quit(); });
  loop_->Run();
}

}  // namespace
}  // namespace muster::worker
