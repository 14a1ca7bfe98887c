#include "controller/policy/limits/time_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

class TimeLimitsTest : public ::testing::Test {
 protected:
  uint64_t Add(const SchedulingSettings& scheduling) {
    JobSettings settings = World::Settings(1);
    settings.scheduling = scheduling;
    return world_.AddJob(settings).id;
  }
  // One more attempt that began and, unless it lives, ended then.
  void Attempt(uint64_t id, absl::Time started, absl::Time ended = absl::InfiniteFuture()) {
    world_.Place(id, {"worker-1"}, JobState::kRunning);
    world_.draft().EditAttempt(id).started = started;
    world_.draft().EditAttempt(id).ended = ended;
    if (ended != absl::InfiniteFuture()) world_.draft().EditJob(id).state = JobState::kPending;
  }
  // Ledger time is the wall clock's here.
  static Moment At(absl::Time now) { return {.wall = now, .now = now - absl::UnixEpoch()}; }
  std::optional<PassedLimit> Evaluate(uint64_t id, absl::Time now) {
    const Snapshot& view = world_.view();
    return EvaluateLimits(view, *view.FindJob(id), At(now));
  }

  World world_;
};

TEST_F(TimeLimitsTest, RunTimeIsThatOfAllAttemptsSinceTheLastRequeue) {
  const uint64_t id = Add({});
  EXPECT_EQ(RunTime(*world_.view().FindJob(id), kStart), absl::ZeroDuration());
  Attempt(id, kStart, kStart + absl::Minutes(3));
  Attempt(id, kStart + absl::Minutes(10));
  const absl::Time now = kStart + absl::Minutes(12);
  EXPECT_EQ(RunTime(*world_.view().FindJob(id), now), absl::Minutes(5));
  world_.draft().EditJob(id).requeued_after = 1;
  EXPECT_EQ(RunTime(*world_.view().FindJob(id), now), absl::Minutes(2));
  // A clock that was set back takes nothing away.
  EXPECT_EQ(RunTime(*world_.view().FindJob(id), kStart), absl::ZeroDuration());
}

TEST_F(TimeLimitsTest, RunTimeGoesByTheLedgerAndNotByTheWallClock) {
  const uint64_t id = Add({.max_run_time = absl::Minutes(5)});
  Attempt(id, kStart);
  world_.draft().EditAttempt(id).held_from = absl::UnixEpoch() + absl::Hours(1);
  const auto evaluate = [&](absl::Duration ran, absl::Time wall) {
    const Snapshot& view = world_.view();
    return EvaluateLimits(view, *view.FindJob(id), {.wall = wall, .now = absl::Hours(1) + ran});
  };
  EXPECT_FALSE(evaluate(absl::Minutes(4), kStart + absl::Hours(10'000)).has_value());
  EXPECT_TRUE(evaluate(absl::Minutes(5), kStart - absl::Hours(10'000)).has_value());
  // The same once it is over.
  world_.draft().EditAttempt(id).ended = kStart + absl::Hours(9'000);
  world_.draft().EditAttempt(id).held_until = absl::UnixEpoch() + absl::Minutes(62);
  EXPECT_EQ(PastRunTime(*world_.view().FindJob(id)), absl::Minutes(2));
}

TEST_F(TimeLimitsTest, OneLookFindsNoMoreThanAnEventMayCarry) {
  for (int i = 0; i < 5; ++i) Add({.deadline = kStart});
  EXPECT_THAT(FindPassedLimits(world_.view(), At(kStart)), SizeIs(5));
  EXPECT_THAT(FindPassedLimits(world_.view(), At(kStart), 3), SizeIs(3));
}

TEST_F(TimeLimitsTest, TheRunTimeIsOverAtItsVeryEnd) {
  const uint64_t id = Add({.max_run_time = absl::Minutes(5)});
  EXPECT_FALSE(Evaluate(id, kStart).has_value()) << "it has not run";
  Attempt(id, kStart);
  EXPECT_FALSE(Evaluate(id, kStart + absl::Minutes(5) - absl::Milliseconds(1)).has_value());
  const auto passed = Evaluate(id, kStart + absl::Minutes(5));
  ASSERT_TRUE(passed.has_value());
  EXPECT_EQ(passed->input, JobInput::kTimeLimit);
  EXPECT_THAT(passed->message, HasSubstr("max_run_time: 5m"));
  EXPECT_THAT(FindPassedLimits(world_.view(), At(kStart + absl::Minutes(6))), SizeIs(1));
  EXPECT_THAT(FindPassedLimits(world_.view(), At(kStart)), IsEmpty());
}

TEST_F(TimeLimitsTest, AJobThatHasRunItsTimeAndWaitsAgainHasPassedItToo) {
  const uint64_t id = Add({.max_run_time = absl::Minutes(5)});
  Attempt(id, kStart, kStart + absl::Minutes(5));
  ASSERT_TRUE(Evaluate(id, kStart + absl::Hours(1)).has_value());
  world_.draft().EditJob(id).requeued_after = 1;
  EXPECT_FALSE(Evaluate(id, kStart + absl::Hours(1)).has_value());
}

TEST_F(TimeLimitsTest, ADeadlineMeansOneThingForWhatWaitsAndAnotherForWhatRuns) {
  const absl::Time deadline = kStart + absl::Hours(1);
  const uint64_t waits = Add({.deadline = deadline});
  const uint64_t runs = Add({.deadline = deadline});
  Attempt(runs, kStart);
  EXPECT_FALSE(Evaluate(waits, deadline - absl::Seconds(1)).has_value());
  EXPECT_EQ(Evaluate(waits, deadline)->input, JobInput::kDeadlinePassed);
  EXPECT_EQ(Evaluate(runs, deadline)->input, JobInput::kTimeLimit);
  for (const JobState state : {JobState::kRecovering, JobState::kStopping, JobState::kSucceeded}) {
    world_.draft().EditJob(runs).state = state;
    EXPECT_FALSE(Evaluate(runs, deadline).has_value()) << JobStateName(state);
  }
}

TEST_F(TimeLimitsTest, ADependencyThatCannotBeMetIsALimitOfWhatWaits) {
  const uint64_t other = Add({});
  const uint64_t id = Add({.after = {{.job_id = other}}});
  EXPECT_FALSE(Evaluate(id, kStart).has_value());
  world_.draft().EditJob(other).state = JobState::kFailed;
  EXPECT_EQ(Evaluate(id, kStart)->input, JobInput::kDependencyFailed);
}

}  // namespace
}  // namespace muster::controller
