// What is left to do of a job that was lost, stopped or requeued.
#include "controller/policy/run_time.h"

#include <gtest/gtest.h>

#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
absl::Time At(int minutes) { return kStart + absl::Minutes(minutes); }

class RunTimeTest : public ::testing::Test {
 protected:
  void Add(absl::Duration expected, absl::Duration limit) {
    JobSettings settings = World::Settings(1);
    settings.scheduling.expected_run_time = expected;
    settings.scheduling.max_run_time = limit;
    world_.AddJob(settings);
  }
  // An attempt over these minutes; it saved its steps at those.
  void Ran(int from, int to, const std::map<int64_t, int>& saves = {}) {
    world_.Place(1, {"a"}, JobState::kPending);
    Attempt& attempt = world_.draft().EditAttempt(1);
    attempt.started = At(from);
    attempt.ended = At(to);
    for (const auto& [step, at] : saves) {
      const uint64_t id = world_.draft()
                              .AddCheckpoint({.job_id = 1,
                                              .step = step,
                                              .attempt = attempt.number,
                                              .state = CheckpointState::kCommitted,
                                              .path = "/c",
                                              .created = At(at)})
                              .id;
      world_.draft().EditJob(1).checkpoints.push_back(id);
    }
  }
  // In minutes.
  double Left() {
    return absl::ToDoubleMinutes(ExpectedRunTimeLeft(world_.view(), *world_.view().FindJob(1)));
  }

  World world_;
};

TEST_F(RunTimeTest, OnlyWhatWasSavedIsBehindTheJob) {
  Add(absl::Minutes(100), absl::InfiniteDuration());
  Ran(0, 50);
  EXPECT_EQ(Left(), 100) << "all of it is lost";
  Ran(60, 90, {{10, 70}, {20, 80}});
  EXPECT_EQ(Left(), 80);
  Ran(100, 130, {{30, 125}});
  EXPECT_EQ(Left(), 55);
  // The first ones go by the retention policy: their work stands in the last one.
  world_.draft().EditCheckpoint(1).state = CheckpointState::kDeleted;
  world_.draft().EditCheckpoint(2).state = CheckpointState::kDeleted;
  EXPECT_EQ(Left(), 55);
  world_.draft().EditCheckpoint(3).state = CheckpointState::kCorrupt;
  EXPECT_EQ(Left(), 100) << "nothing is left to resume from";
}

TEST_F(RunTimeTest, AnAttemptThatFellBackBehindACheckpointHasItBeforeItAgain) {
  Add(absl::Minutes(100), absl::InfiniteDuration());
  Ran(0, 50, {{10, 20}, {20, 40}});
  Ran(60, 90);
  Attempt& live = world_.draft().EditAttempt(1);
  live.ended = absl::InfiniteFuture();
  live.first_step = 10;
  EXPECT_EQ(Left(), 80);
  EXPECT_EQ(ExpectedEnd(world_.view(), *world_.view().FindJob(1), At(61)), At(140));
}

TEST_F(RunTimeTest, ARequeuedJobHasAllOfItBeforeIt) {
  Add(absl::ZeroDuration(), absl::Minutes(40));
  Ran(0, 40, {{10, 30}});
  EXPECT_EQ(Left(), 0) << "it may not run any more";
  world_.draft().EditJob(1).requeued_after = 1;
  EXPECT_EQ(Left(), 40);
}

TEST_F(RunTimeTest, TheLimitBoundsWhatALostJobCanStillTake) {
  Add(absl::Minutes(30), absl::Minutes(40));
  Ran(0, 25);
  EXPECT_EQ(Left(), 15);
}

TEST_F(RunTimeTest, AnExpectationThatProvedWrongIsNoneAnyMore) {
  Add(absl::Minutes(30), absl::InfiniteDuration());
  Ran(0, 50, {{10, 45}});
  EXPECT_EQ(ExpectedRunTimeLeft(world_.view(), *world_.view().FindJob(1)),
            absl::InfiniteDuration());
}

// A job that had run out its 40 seconds was requeued and slipped in "before job 30, which it does
// not hold up", as if almost nothing of it were left; job 30 started 24 seconds late.
TEST_F(RunTimeTest, ARequeuedJobDoesNotSlipInBeforeTheHeadThatItWouldDelay) {
  Add(absl::ZeroDuration(), absl::Minutes(40));
  Ran(-60, -20);
  world_.draft().EditJob(1).requeued_after = 1;
  world_.AddWorker("a", 2);
  JobSettings running = World::Settings(1);
  running.scheduling.expected_run_time = absl::Minutes(30);
  running.scheduling.preemptible = false;
  world_.AddJob(running);
  world_.Place(2, {"a"}, JobState::kRunning);
  world_.draft().EditAttempt(2).started = At(0);
  Rank& rank = world_.draft().EditRank(2, 0);
  rank.slots = {0};
  HoldSlots(world_.draft().EditWorker(1), running.needs, 2, 1, rank);
  JobSettings head = World::Settings(2);
  head.priority = 5;
  world_.AddJob(head);
  const auto placed = [&] {
    return Schedule(world_.view(), {.now = absl::Hours(1), .wall = At(0)}).plan.place.size();
  };
  EXPECT_EQ(placed(), 0u);
  JobSettings brief = *world_.view().FindJob(1)->settings;
  brief.scheduling.max_run_time = absl::Minutes(30);
  world_.draft().EditJob(1).settings = std::make_shared<const JobSettings>(brief);
  EXPECT_EQ(placed(), 1u);
}

}  // namespace
}  // namespace muster::controller
