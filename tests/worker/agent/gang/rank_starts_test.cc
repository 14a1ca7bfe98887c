#include "worker/agent/gang/rank_starts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/hung_mount.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/side_jobs.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/base/path_watch.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

class RankStartsTest : public ::testing::Test {
 protected:
  struct Ended {
    RankStarts::Starting starting;
    absl::StatusOr<StartedProcess> process;
  };

  void SetUp() override {
    auto loop = EventLoop::Create(clock_);
    ASSERT_OK(loop);
    loop_ = *std::move(loop);
    threads_ = std::make_unique<SideThreads>(loop_->mailbox());
    starts_ = std::make_unique<RankStarts>(
        *loop_, *threads_, patience_,
        [this](RankStarts::Starting starting, absl::StatusOr<StartedProcess> process) {
          done_.push_back({std::move(starting), std::move(process)});
          loop_->Quit();
        });
  }

  RankPlan Plan(uint32_t rank, const std::string& program) const {
    RankPlan plan;
    plan.fence.set_job_id(7);
    plan.fence.set_attempt(1);
    plan.rank = rank;
    plan.command.program = program;
    plan.command.argv = {program};
    plan.command.directory = dir_.path();
    plan.command.log_directory = dir_.path();
    plan.command.link = false;
    return plan;
  }
  int Starting() const {
    int count = 0;
    starts_->ForEach([&count](const RankStarts::Starting&) { ++count; });
    return count;
  }
  void AwaitOne() {
    const size_t before = done_.size();
    while (done_.size() == before) loop_->Run();
  }

  TempDir dir_;
  RealClock clock_;
  ChildProcesses children_;
  std::unique_ptr<EventLoop> loop_;
  std::vector<Ended> done_;
  absl::Duration patience_ = absl::Minutes(10);
  std::unique_ptr<SideThreads> threads_;
  std::unique_ptr<RankStarts> starts_;
};

TEST_F(RankStartsTest, HandsOverTheProcess) {
  starts_->Begin(Plan(3, "/bin/true"));
  EXPECT_EQ(Starting(), 1);
  AwaitOne();
  EXPECT_EQ(Starting(), 0);
  ASSERT_OK(done_[0].process);
  EXPECT_EQ(done_[0].starting.plan.rank, 3u);
  EXPECT_FALSE(done_[0].starting.stop.has_value());
  RankProcess process(*std::move(done_[0].process), children_);
  while (!process.Ended().has_value()) {
  }
  EXPECT_EQ(process.Ended()->code, 0);
}

TEST_F(RankStartsTest, SaysWhyThereIsNone) {
  starts_->Begin(Plan(0, "/no/such/program"));
  AwaitOne();
  EXPECT_THAT(done_[0].process, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Starting(), 0);
}

TEST_F(RankStartsTest, AStartThatHangsHoldsUpNeitherTheLoopNorAStop) {
  // To write to a pipe that nobody reads hangs in open, as a file system may.
  const std::string log = dir_ / "stdout.log";
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  starts_->Begin(Plan(0, "/bin/true"));
  loop_->After(absl::ZeroDuration(), [this] { loop_->Quit(); });
  loop_->Run();
  EXPECT_EQ(Starting(), 1);

  const auto all = [](const RankKey&) { return true; };
  const auto none = [](const RankKey&) { return false; };
  const auto request = [](v1::StopRanks::Mode mode, const char* reason) {
    return StopRequest{mode, absl::Seconds(1), reason};
  };
  starts_->Stop(request(v1::StopRanks::KILL, "another's"), absl::Seconds(1), none);
  starts_->Stop(request(v1::StopRanks::SAVE, "first"), absl::Seconds(2), all);
  starts_->Stop(request(v1::StopRanks::KILL, "harshest"), absl::Seconds(3), all);
  starts_->Stop(request(v1::StopRanks::TERM, "milder"), absl::Seconds(4), all);

  const UniqueFd reader(::open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  AwaitOne();
  ASSERT_OK(done_[0].process);
  EXPECT_EQ(done_[0].starting.stop->reason, "harshest");
  EXPECT_EQ(done_[0].starting.stopped_at, absl::Seconds(2));
  RankProcess process(*std::move(done_[0].process), children_);
}

TEST_F(RankStartsTest, AStartThatHangsHoldsUpNoOther) {
  const std::string log = dir_ / "stdout.log";
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  starts_->Begin(Plan(0, "/bin/true"));
  RankPlan other = Plan(1, "/bin/true");
  std::filesystem::create_directory(dir_ / "other");
  other.command.log_directory = dir_ / "other";
  starts_->Begin(std::move(other));
  AwaitOne();
  EXPECT_EQ(done_[0].starting.plan.rank, 1u);
  ASSERT_OK(done_[0].process);
  RankProcess first(*std::move(done_[0].process), children_);
  const UniqueFd reader(::open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  AwaitOne();
  RankProcess second(*std::move(done_[1].process), children_);
}

TEST_F(RankStartsTest, AStartHasItsPatienceFromWhenAThreadTakesItUp) {
  SideThreads one(loop_->mailbox(), /*most=*/1);
  EnqueueSlow(one);
  RankStarts starts(*loop_, one, kPatienceBehindSlow,
                    [this](RankStarts::Starting starting, absl::StatusOr<StartedProcess> process) {
                      done_.push_back({std::move(starting), std::move(process)});
                      loop_->Quit();
                    });
  starts.Begin(Plan(0, "/bin/true"));
  AwaitOne();
  ASSERT_OK(done_[0].process);
  EXPECT_EQ(done_[0].starting.gave_up_at, absl::InfiniteDuration());
  RankProcess process(*std::move(done_[0].process), children_);
}

TEST_F(RankStartsTest, AStartForWhichNoThreadComesFreeHasFailed) {
  SideThreads one(loop_->mailbox(), /*most=*/1);
  HungJob hung(one, "/mnt/dead/program");
  RankStarts starts(*loop_, one, absl::Milliseconds(50),
                    [this](RankStarts::Starting starting, absl::StatusOr<StartedProcess> process) {
                      done_.push_back({std::move(starting), std::move(process)});
                      loop_->Quit();
                    });
  starts.Begin(Plan(0, "/bin/true"));
  AwaitOne();
  EXPECT_THAT(done_[0].process, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                         ::testing::HasSubstr("/mnt/dead/program")));
  starts.ForEach([](const RankStarts::Starting&) { ADD_FAILURE() << "it holds its slots"; });
}

// The program's own file system does not answer: the process is there, and cannot begin.
class HungStartTest : public RankStartsTest {
 protected:
  HungStartTest() { patience_ = absl::Milliseconds(200); }
};

TEST_F(HungStartTest, AStartThatTakesTooLongIsEndedAndHasFailed) {
  const auto hung = ::muster::testing::HungMount::Make(dir_ / "hung");
  if (hung == nullptr) GTEST_SKIP() << "nothing can be mounted here";
  starts_->Begin(Plan(0, dir_ / "hung/program"));
  AwaitOne();
  EXPECT_THAT(done_[0].process, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                         ::testing::HasSubstr(dir_ / "hung/program")));
  EXPECT_EQ(Starting(), 0);
}

}  // namespace
}  // namespace muster::worker
