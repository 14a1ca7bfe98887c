#include "controller/policy/placement/elastic.h"

#include <gtest/gtest.h>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

class ElasticTest : public ::testing::Test {
 protected:
  ElasticTest() {
    world_.AddJob(World::Settings(1, 8));
    world_.Place(1, {"a", "a"}, JobState::kRunning);
    world_.draft().EditAttempt(1).started = kNow - absl::Minutes(20);
    Save(absl::ZeroDuration());
  }
  void Save(absl::Duration ago) {
    const uint64_t id = world_.draft()
                            .AddCheckpoint({.job_id = 1,
                                            .attempt = 1,
                                            .state = CheckpointState::kCommitted,
                                            .path = "/c",
                                            .created = kNow - ago})
                            .id;
    world_.draft().EditJob(1).checkpoints = {id};
  }
  const Job& job() { return *world_.view().FindJob(1); }
  bool Worth(uint32_t ranks) {
    return IsWorthGrowing(world_.view(), job(), ranks, settings_, kNow);
  }

  World world_;
  ElasticSettings settings_;
};

TEST_F(ElasticTest, GrowsWhenTheGainIsWorthTheRestart) {
  ASSERT_TRUE(MayGrow(job()));
  EXPECT_TRUE(Worth(4)) << "half of another 20 minutes is saved";
  EXPECT_FALSE(Worth(2));
  settings_.grow_gain = 1.5;
  EXPECT_FALSE(Worth(4));
  settings_.grow_gain = 0.25;
  settings_.restart_cost = absl::Minutes(6);
  EXPECT_FALSE(Worth(4));
}

TEST_F(ElasticTest, AYoungAttemptIsLeftAlone) {
  world_.draft().EditAttempt(1).started = kNow - absl::Minutes(9);
  EXPECT_FALSE(Worth(8));
}

TEST_F(ElasticTest, AJobThatIsNearlyDoneIsLeftAlone) {
  Job& edited = world_.draft().EditJob(1);
  edited.progress.step = 95;
  edited.progress.total_steps = 100;
  EXPECT_EQ(absl::ToInt64Seconds(TimeLeft(job(), kNow)), 63);
  EXPECT_FALSE(Worth(8));
  edited.progress.total_steps = 1000;
  EXPECT_TRUE(Worth(8));
}

TEST_F(ElasticTest, OnlyARunningGangWithRoomInItsRangeIsResized) {
  EXPECT_TRUE(MayShrink(job()));
  world_.draft().EditAttempt(1).save_requested = true;
  EXPECT_FALSE(MayGrow(job()));
  EXPECT_FALSE(MayShrink(job()));
  world_.AddJob(World::Settings(2));
  world_.Place(2, {"a", "a"}, JobState::kRunning);
  EXPECT_FALSE(MayGrow(*world_.view().FindJob(2)));
  EXPECT_FALSE(MayShrink(*world_.view().FindJob(2)));
  JobSettings firm = World::Settings(1, 8);
  firm.scheduling.preemptible = false;
  world_.AddJob(firm);
  world_.Place(3, {"a", "a"}, JobState::kRunning);
  EXPECT_FALSE(MayGrow(*world_.view().FindJob(3)));
  EXPECT_FALSE(MayShrink(*world_.view().FindJob(3)));
}

TEST_F(ElasticTest, WhatIsNotSavedIsDoneOnceMore) {
  Save(absl::Minutes(7));
  EXPECT_TRUE(Worth(4)) << "ten minutes are gained, seven lost";
  Save(absl::Minutes(9));
  EXPECT_FALSE(Worth(4));
  world_.draft().EditJob(1).checkpoints.clear();
  EXPECT_FALSE(Worth(1000)) << "it may not be able to save at all";
}

TEST_F(ElasticTest, WhoSetsTheWallClockChangesNothingOfIt) {
  for (const absl::Duration by : {absl::Hours(-10'000), absl::Hours(10'000)}) {
    Attempt& attempt = world_.draft().EditAttempt(1);
    attempt.started = kNow + by - absl::Minutes(20);
    attempt.held_from = kNow - absl::Minutes(20);
    const uint64_t id = job().checkpoints.back();
    Checkpoint& saved = world_.draft().EditCheckpoint(id);
    saved.created = kNow + by - absl::Minutes(7);
    saved.created_at = kNow - absl::Minutes(7);
    EXPECT_EQ(TimeLeft(job(), kNow), absl::Minutes(20));
    EXPECT_TRUE(Worth(4));
    saved.created_at = kNow - absl::Minutes(9);
    EXPECT_FALSE(Worth(4));
    const auto shrinks = [&](absl::Time now) {
      return ShrinksFor(world_.view(), job(), 0, settings_, now);
    };
    EXPECT_TRUE(shrinks(kNow));
    EXPECT_FALSE(shrinks(kNow - absl::Minutes(11)));
  }
}

TEST_F(ElasticTest, ShrinksAtOnceForHigherPriorityAndInTimeForItsOwn) {
  const auto shrinks = [&](int32_t priority, absl::Time now) {
    return ShrinksFor(world_.view(), job(), priority, settings_, now);
  };
  world_.draft().EditAttempt(1).started = kNow - absl::Minutes(9);
  EXPECT_TRUE(shrinks(1, kNow));
  EXPECT_FALSE(shrinks(-1, kNow));
  EXPECT_FALSE(shrinks(0, kNow));
  EXPECT_TRUE(shrinks(0, kNow + absl::Minutes(1)));
  world_.draft().EditJob(1).checkpoints.clear();
  EXPECT_FALSE(shrinks(0, kNow + absl::Hours(9))) << "it has nothing to go on from";
  EXPECT_TRUE(shrinks(1, kNow));
}

}  // namespace
}  // namespace muster::controller
