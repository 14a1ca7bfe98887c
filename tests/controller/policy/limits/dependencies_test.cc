#include "controller/policy/limits/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;
using On = SchedulingSettings::On;

class DependenciesTest : public ::testing::Test {
 protected:
  uint64_t Add(JobState state, uint64_t array_id = 0) {
    Job& job = world_.AddJob(World::Settings(1));
    job.state = state;
    job.array.array_id = array_id;
    return job.id;
  }
  DependencyOutlook Evaluate(uint64_t id, On on) {
    return EvaluateDependency(world_.view(), {.job_id = id, .on = on}).state;
  }

  World world_;
};

TEST_F(DependenciesTest, EachWishHasItsStates) {
  struct Case {
    JobState state;
    DependencyOutlook success, failure, end;
  };
  constexpr auto kMet = DependencyOutlook::kMet;
  constexpr auto kWaiting = DependencyOutlook::kWaiting;
  constexpr auto kNever = DependencyOutlook::kNever;
  for (const Case& c :
       {Case{JobState::kPending, kWaiting, kWaiting, kWaiting},
        Case{JobState::kRunning, kWaiting, kWaiting, kWaiting},
        Case{JobState::kSuspended, kWaiting, kWaiting, kWaiting},
        Case{JobState::kSucceeded, kMet, kNever, kMet}, Case{JobState::kFailed, kNever, kMet, kMet},
        Case{JobState::kCancelled, kNever, kMet, kMet}}) {
    const uint64_t id = Add(c.state);
    EXPECT_EQ(Evaluate(id, On::kSuccess), c.success) << JobStateName(c.state);
    EXPECT_EQ(Evaluate(id, On::kFailure), c.failure) << JobStateName(c.state);
    EXPECT_EQ(Evaluate(id, On::kEnd), c.end) << JobStateName(c.state);
  }
  EXPECT_EQ(Evaluate(99, On::kEnd), kNever);
}

TEST_F(DependenciesTest, AnArrayIsWaitedForAsAWhole) {
  const uint64_t first = Add(JobState::kSucceeded, 1);
  const uint64_t second = Add(JobState::kRunning, 1);
  Add(JobState::kFailed);  // of no array
  EXPECT_EQ(Evaluate(first, On::kSuccess), DependencyOutlook::kWaiting);
  EXPECT_EQ(Evaluate(first, On::kEnd), DependencyOutlook::kWaiting);
  EXPECT_EQ(EvaluateDependency(world_.view(), {.job_id = first}).job_id, first) << "the array";
  world_.draft().EditJob(second).state = JobState::kFailed;
  EXPECT_EQ(Evaluate(first, On::kSuccess), DependencyOutlook::kNever);
  EXPECT_EQ(Evaluate(first, On::kFailure), DependencyOutlook::kMet);
  EXPECT_EQ(Evaluate(first, On::kEnd), DependencyOutlook::kMet);
  world_.draft().EditJob(second).state = JobState::kSucceeded;
  EXPECT_EQ(Evaluate(first, On::kSuccess), DependencyOutlook::kMet);
  EXPECT_EQ(Evaluate(first, On::kFailure), DependencyOutlook::kNever);
}

TEST_F(DependenciesTest, OneTaskOfAnArrayIsWaitedForAlone) {
  for (uint32_t index = 5; index < 8; ++index) {
    const uint64_t id = Add(index == 6 ? JobState::kFailed : JobState::kSucceeded, 1);
    world_.draft().EditJob(id).array.index = index;
  }
  const auto evaluate = [&](uint32_t task) {
    return EvaluateDependency(world_.view(), {.job_id = 1, .task = task});
  };
  EXPECT_EQ(evaluate(5).state, DependencyOutlook::kMet) << "the first one's id is the array's";
  EXPECT_EQ(evaluate(7).state, DependencyOutlook::kMet);
  EXPECT_EQ(evaluate(6).state, DependencyOutlook::kNever);
  EXPECT_THAT(evaluate(6).message,
              HasSubstr("job 2 is FAILED, and this job waits for the success of "
                        "job 1_6"));
  for (const uint32_t none : {4u, 8u}) {
    EXPECT_EQ(evaluate(none).state, DependencyOutlook::kNever) << none;
  }
  world_.draft().EditJob(3).state = JobState::kRunning;
  EXPECT_EQ(evaluate(7).state, DependencyOutlook::kWaiting);
  EXPECT_EQ(evaluate(7).job_id, 3u);
  EXPECT_FALSE(evaluate(7).whole_array);
  EXPECT_EQ(Evaluate(1, On::kSuccess), DependencyOutlook::kNever) << "all of it";
}

TEST_F(DependenciesTest, WhatCanNeverBeIsSaidBeforeWhatIsWaitedFor) {
  const uint64_t waiting = Add(JobState::kPending);
  const uint64_t failed = Add(JobState::kFailed);
  JobSettings settings = World::Settings(1);
  settings.scheduling.after = {{.job_id = waiting}, {.job_id = failed}};
  const uint64_t id = world_.AddJob(settings).id;
  const DependencyStatus status = EvaluateDependencies(world_.view(), *world_.view().FindJob(id));
  EXPECT_EQ(status.state, DependencyOutlook::kNever);
  EXPECT_EQ(status.job_id, failed);
  EXPECT_THAT(status.message, HasSubstr("is FAILED, and this job waits for the success of job 2"));
  // Once it was placed it waits for nobody.
  world_.draft().EditJob(id).attempt = 1;
  EXPECT_EQ(EvaluateDependencies(world_.view(), *world_.view().FindJob(id)).state,
            DependencyOutlook::kMet);
}

}  // namespace
}  // namespace muster::controller
