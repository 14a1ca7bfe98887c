// A running gang with a range of ranks grows into slots that came free: the whole way through the
// engine, from its scheduler's own proposal to the larger gang that goes on from the checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::testing::HasSubstr;

class ElasticGrowthTest : public ::muster::testing::ControllerFixture {
 protected:
  void SetUp() override {
    elastic_.grow_after = absl::Minutes(2);
    elastic_.restart_cost = absl::Seconds(10);
    ControllerFixture::SetUp();
    one_ = ConnectNew("worker-1", 4);
    other_ = Submit({.min_ranks = 3});
    other_fence_ = StartRanks(one_).fence;
    elastic_job_ = Submit({.min_ranks = 1, .max_ranks = 4, .max_restarts = 0});
    fence_ = StartRanks(one_).fence;
  }

  // The agent speaks all the while.
  void Live(absl::Duration time) {
    for (absl::Duration lived; lived < time; lived += absl::Seconds(3)) {
      clock_.Advance(absl::Seconds(3));
      ASSERT_OK(Beat(one_).status);
    }
  }
  void FinishOther() {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ReportExit(one_, other_fence_, rank, {.succeeded = true});
    }
    ASSERT_EQ(state(other_), JobState::kSucceeded);
  }
  size_t ranks() const { return job(elastic_job_).current->ranks.size(); }

  Agent one_;
  uint64_t other_ = 0;
  uint64_t elastic_job_ = 0;
  Fence other_fence_;
  Fence fence_;
};

TEST_F(ElasticGrowthTest, ItSavesLeavesAndGoesOnWithMoreRanks) {
  ASSERT_EQ(ranks(), 1u);
  FinishOther();
  Live(absl::Minutes(1));
  EXPECT_EQ(state(elastic_job_), JobState::kRunning) << "it has only just begun";
  Live(absl::Seconds(45));
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 30)).status);
  Live(absl::Seconds(21));
  ASSERT_EQ(state(elastic_job_), JobState::kRecovering);
  EXPECT_EQ(job(elastic_job_).reason, Reason::kResized);
  EXPECT_THAT(job(elastic_job_).events.back()->message,
              HasSubstr("goes on with 4 ranks instead of 1"));
  EXPECT_EQ(Take<StopAssignment>(one_).mode, StopMode::kSave);
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 40)).status);
  // What was decided outlives the controller.
  Restart();
  ASSERT_OK(Connect(one_).status);
  ReportExit(one_, fence_, 0, {.stopped = true, .last_step = 40});

  ASSERT_EQ(state(elastic_job_), JobState::kStarting);
  EXPECT_EQ(ranks(), 4u);
  EXPECT_EQ(job(elastic_job_).restarts_in_row, 0u) << "it is not its fault";
  const StartAssignment start = StartRanks(one_);
  EXPECT_EQ(start.world_size, 4u);
  ASSERT_EQ(start.resume.size(), 2u);
  EXPECT_EQ(start.resume.front().step, 40);
  EXPECT_EQ(state(elastic_job_), JobState::kRunning);
  Live(absl::Minutes(5));
  EXPECT_EQ(job(elastic_job_).attempt, 2u) << "it is as large as it may be";
}

TEST_F(ElasticGrowthTest, WhoSetsTheWallClockNeitherHurriesItNorHoldsItUp) {
  FinishOther();
  Live(absl::Minutes(1));
  clock_.JumpWall(absl::Hours(10'000));
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 20)).status);
  Live(absl::Seconds(3));
  EXPECT_EQ(state(elastic_job_), JobState::kRunning) << "it has only just begun";
  clock_.JumpWall(-absl::Hours(20'000));
  Live(absl::Seconds(42));
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 30)).status);
  Live(absl::Seconds(21));
  EXPECT_EQ(state(elastic_job_), JobState::kRecovering);
  EXPECT_EQ(job(elastic_job_).reason, Reason::kResized);
}

TEST_F(ElasticGrowthTest, SlotsThatAnotherJobWaitsForAreLeftToIt) {
  const uint64_t waits = Submit({.min_ranks = 4});
  FinishOther();
  Live(absl::Minutes(3));
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 30)).status);
  EXPECT_EQ(state(waits), JobState::kPending);
  EXPECT_EQ(job(elastic_job_).attempt, 1u);
  EXPECT_EQ(state(elastic_job_), JobState::kRunning);
  EXPECT_OK(Cancel(waits));
  EXPECT_EQ(state(elastic_job_), JobState::kRecovering);
  EXPECT_EQ(job(elastic_job_).reason, Reason::kResized);
}

}  // namespace
}  // namespace muster::controller
