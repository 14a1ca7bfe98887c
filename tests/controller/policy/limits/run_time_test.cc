// What is left to do of a job that was lost, stopped or requeued.
#include "controller/policy/limits/run_time.h"

#include <gtest/gtest.h>

#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
absl::Time At(int minutes) { return kStart + absl::Minutes(minutes); }
// Ledger time is the wall clock's here, unless somebody has set that.
Moment Now(int minutes, absl::Duration clock_set_by = absl::ZeroDuration()) {
  return {.wall = At(minutes) + clock_set_by, .now = At(minutes) - absl::UnixEpoch()};
}

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
  EXPECT_EQ(ExpectedEnd(world_.view(), *world_.view().FindJob(1), Now(61)), At(140));
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

class ForetoldTest : public RunTimeTest {
 protected:
  // The job runs since minute 0, and was foretold to end then.
  void Run(int foretold) {
    world_.Place(1, {"a"}, JobState::kRunning);
    world_.draft().EditAttempt(1).started = At(0);
    world_.draft().EditAttempt(1).held_from = At(0);
    JobPace& pace = world_.draft().EditJob(1).progress.pace;
    pace.attempt = 1;
    pace.end = At(foretold);
  }
  RunTimeSource Source() { return SourceOfRunTimeLeft(world_.view(), *world_.view().FindJob(1)); }
  absl::Time End(int now, absl::Duration clock_set_by = absl::ZeroDuration()) {
    return ExpectedEnd(world_.view(), *world_.view().FindJob(1), Now(now, clock_set_by));
  }
};

TEST_F(ForetoldTest, ItsOwnProgressTellsMoreThanWhatWasDeclared) {
  Add(absl::Minutes(100), absl::InfiniteDuration());
  Run(30);
  EXPECT_EQ(Left(), 30);
  EXPECT_EQ(Source(), RunTimeSource::kProgress);
  EXPECT_EQ(End(10), At(30));
  world_.draft().EditJob(1).progress.pace.attempt = 2;
  EXPECT_EQ(Source(), RunTimeSource::kDeclared) << "of another attempt";
  EXPECT_EQ(End(10), At(100));
}

TEST_F(ForetoldTest, ItEndsWhenItsLimitSaysSoAtTheLatest) {
  Add(absl::ZeroDuration(), absl::Minutes(20));
  Run(30);
  EXPECT_EQ(Left(), 20);
  EXPECT_EQ(Source(), RunTimeSource::kLimit);
  EXPECT_EQ(End(10), At(20));
}

TEST_F(ForetoldTest, AfterItsLastStepItMayTakeATenthMoreAndThenNobodyCanTell) {
  Add(absl::ZeroDuration(), absl::InfiniteDuration());
  Run(30);
  EXPECT_EQ(End(30), At(33));
  EXPECT_EQ(End(32), At(33));
  EXPECT_EQ(End(33), absl::InfiniteFuture());
}

TEST_F(ForetoldTest, WhoSetsTheWallClockMovesTheEndWithItAndNothingElse) {
  Add(absl::Minutes(100), absl::Minutes(120));
  Run(30);
  for (const absl::Duration by : {absl::Hours(-10'000), absl::Hours(10'000)}) {
    // It was set before the job was placed, or since.
    for (const absl::Time started : {At(0) + by, At(0)}) {
      world_.draft().EditAttempt(1).started = started;
      EXPECT_EQ(Left(), 30);
      EXPECT_EQ(Source(), RunTimeSource::kProgress);
      EXPECT_EQ(End(10, by), At(30) + by);
      EXPECT_EQ(End(31, by), At(33) + by);
      EXPECT_EQ(End(40, by), At(120) + by);
      EXPECT_EQ(End(121, by), At(121) + by);
    }
  }
}

TEST_F(RunTimeTest, AClockThatIsSetWhileItRunsSavesNoMoreThanItRan) {
  Add(absl::Minutes(100), absl::InfiniteDuration());
  Ran(0, 10 + 24 * 60, {{10, 5 + 24 * 60}});
  world_.draft().EditAttempt(1).held_from = At(0);
  world_.draft().EditAttempt(1).held_until = At(10);
  EXPECT_EQ(Left(), 90);
}

TEST_F(RunTimeTest, WhoSetsTheWallClockChangesNothingOfWhatWasSaved) {
  for (const int by : {-10'000 * 60, 10'000 * 60}) {
    world_ = World();
    Add(absl::Minutes(100), absl::InfiniteDuration());
    Ran(0, 50 + by, {{10, 30 + by}});
    world_.draft().EditAttempt(1).held_from = At(0);
    world_.draft().EditAttempt(1).held_until = At(50);
    world_.draft().EditCheckpoint(1).created_at = At(30);
    EXPECT_EQ(Left(), 70);
  }
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
  HoldSlots(world_.draft().EditPulse(1), running.needs, 2, 1, rank);
  JobSettings head = World::Settings(2);
  head.priority = 5;
  world_.AddJob(head);
  const auto placed = [&] {
    return Schedule(world_.view(), {.now = Now(0).now, .wall = At(0)}).plan.place.size();
  };
  EXPECT_EQ(placed(), 0u);
  JobSettings brief = *world_.view().FindJob(1)->settings;
  brief.scheduling.max_run_time = absl::Minutes(30);
  world_.draft().EditJob(1).settings = std::make_shared<const JobSettings>(brief);
  EXPECT_EQ(placed(), 1u);
}

}  // namespace
}  // namespace muster::controller
