#include "controller/engine/loops/findings_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;

class FindingsLoopTest : public ::testing::Test {
 protected:
  FindingsLoop Make() {
    return FindingsLoop(
        absl::Seconds(1),
        {.snapshot = [] { return std::make_shared<const Snapshot>(); },
         .post =
             [this](Event event, EventDone done) {
               posted_.push_back(std::get<Findings>(event).found.size());
               done_ = std::move(done);
             },
         .wake_up = [this] { ++wake_ups_; }},
        [this](const Snapshot&) { return std::vector<Finding>(to_find_, LimitPassed{}); });
  }
  void Answer(absl::Status status) {
    EventResult result;
    result.status = std::move(status);
    done_(result);
  }

  size_t to_find_ = 0;
  std::vector<size_t> posted_;
  EventDone done_;
  int wake_ups_ = 0;
};

TEST_F(FindingsLoopTest, NothingIsPostedWhenNothingIsFound) {
  FindingsLoop loop = Make();
  EXPECT_EQ(loop.RunOnce(), absl::Seconds(1));
  EXPECT_TRUE(posted_.empty());
}

TEST_F(FindingsLoopTest, OneEventCarriesAllAndNothingFollowsWhileItIsUnanswered) {
  FindingsLoop loop = Make();
  to_find_ = 7;
  for (int look = 0; look < 100; ++look) loop.RunOnce();
  EXPECT_EQ(posted_, std::vector<size_t>{7});
  Answer(absl::OkStatus());
  EXPECT_EQ(wake_ups_, 0) << "the next turn is soon enough";
  loop.RunOnce();
  EXPECT_EQ(posted_, (std::vector<size_t>{7, 7}));
}

TEST_F(FindingsLoopTest, AfterAFullEventItLooksAtOnceButNotAfterARefusal) {
  FindingsLoop loop = Make();
  to_find_ = Findings::kMost;
  loop.RunOnce();
  Answer(absl::OkStatus());
  EXPECT_EQ(wake_ups_, 1);
  loop.RunOnce();
  Answer(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(wake_ups_, 1);
}

class ManyDependentsTest : public ::muster::testing::ControllerFixture {};

TEST_F(ManyDependentsTest, TheyEndInEventsOfBoundedSizeBetweenWhichAgentsAreHeard) {
  constexpr uint32_t kJobs = 3 * Findings::kMost + 10;
  Agent agent = ConnectNew("worker-1", 1);
  const uint64_t failing = Submit({.max_restarts = 0});
  const Fence fence = StartRanks(agent).fence;
  auto settings =
      std::make_shared<JobSettings>(*::muster::testing::MakeSettings({.wait_for_capacity = true}));
  settings->scheduling.after = {{.job_id = failing}};
  ASSERT_OK(Apply(SubmitJob{.settings = settings,
                            .owner = "ann",
                            .array = ArrayRange{.first = 1, .last = kJobs}})
                .status);
  agent.alive.clear();
  // One heartbeat is posted for each version that is published: none of them waits for more than
  // one event of the loop.
  size_t ended = 0;
  size_t most = 0;
  on_published_ = [&](const std::shared_ptr<const Snapshot>& snapshot) {
    const size_t now = snapshot->jobs.size() - snapshot->active_jobs->size();
    most = std::max(most, now - ended);
    ended = now;
  };
  ASSERT_OK(ReportExit(agent, fence, 0, {.failure_class = FailureClass::kApplication}).status);
  for (int i = 0; i < 10 && !snapshot()->active_jobs->empty(); ++i) Advance(absl::Seconds(1));
  EXPECT_TRUE(snapshot()->active_jobs->empty());
  EXPECT_EQ(ended, kJobs + 1);
  EXPECT_LE(most, Findings::kMost + 1);
  EXPECT_OK(Beat(agent).status);
}

TEST_F(ManyDependentsTest, AgentsAreAnsweredWhileAHundredThousandEnd) {
  constexpr uint32_t kTasks = 10'000;
  constexpr size_t kJobs = 100'000;
  Agent agent = ConnectNew("worker-1", 1);
  const uint64_t failing = Submit({.max_restarts = 0});
  const Fence fence = StartRanks(agent).fence;
  auto settings =
      std::make_shared<JobSettings>(*::muster::testing::MakeSettings({.wait_for_capacity = true}));
  settings->scheduling.after = {{.job_id = failing}};
  for (size_t submitted = 0; submitted < kJobs; submitted += kTasks) {
    ASSERT_OK(Apply(SubmitJob{.settings = settings,
                              .owner = "ann",
                              .array = ArrayRange{.first = 1, .last = kTasks}})
                  .status);
  }
  agent.alive.clear();
  // A heartbeat is posted whenever some have ended, and answered before many more have.
  size_t ended = 0;
  size_t ended_when_answered = 0;
  size_t most = 0;
  size_t answers = 0;
  const auto answered = [&](const EventResult& result) {
    EXPECT_OK(result.status);
    most = std::max(most, ended - std::exchange(ended_when_answered, ended));
    ++answers;
  };
  on_published_ = [&](const std::shared_ptr<const Snapshot>& snapshot) {
    const size_t now = snapshot->jobs.size() - snapshot->active_jobs->size();
    if (std::exchange(ended, now) == now) return;
    engine_->Post(
        WorkerHeartbeat{.worker = agent.name, .incarnation = agent.incarnation, .ranks = {}},
        answered);
  };
  ASSERT_OK(ReportExit(agent, fence, 0, {.failure_class = FailureClass::kApplication}).status);
  for (int i = 0; i < 10 && !snapshot()->active_jobs->empty(); ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(ended, kJobs + 1);
  EXPECT_LE(most, Findings::kMost + 1);
  EXPECT_GE(answers, kJobs / Findings::kMost);
}

}  // namespace
}  // namespace muster::controller
