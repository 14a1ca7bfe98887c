#include "controller/policy/elastic.h"

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
  }
  const Job& job() { return *world_.view().FindJob(1); }
  bool Worth(uint32_t ranks) { return IsWorthGrowing(job(), ranks, settings_, kNow); }

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
  EXPECT_TRUE(MayGrow(*world_.view().FindJob(3)));
  EXPECT_FALSE(MayShrink(*world_.view().FindJob(3)));
}

TEST_F(ElasticTest, ShrinksAtOnceForHigherPriorityAndInTimeForItsOwn) {
  world_.draft().EditAttempt(1).started = kNow - absl::Minutes(9);
  EXPECT_TRUE(ShrinksFor(job(), 1, settings_, kNow));
  EXPECT_FALSE(ShrinksFor(job(), -1, settings_, kNow));
  EXPECT_FALSE(ShrinksFor(job(), 0, settings_, kNow));
  EXPECT_TRUE(ShrinksFor(job(), 0, settings_, kNow + absl::Minutes(1)));
}

}  // namespace
}  // namespace muster::controller
