// The job's life, end to end, with fake agents on a simulated clock.
#include "controller/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class EngineTest : public ::muster::testing::ControllerFixture {};

TEST_F(EngineTest, AJobRunsFromSubmitToSuccess) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  EXPECT_EQ(state(id), JobState::kStarting);
  const StartAssignment start = StartRanks(one);
  EXPECT_EQ(start.world_size, 2u);
  EXPECT_EQ(start.checkpoint_root, "/ckpt/job-1");
  EXPECT_EQ(state(id), JobState::kRunning);
  StartRanks(two);
  ReportExit(one, start.fence, 0, {.succeeded = true, .last_step = 10});
  EXPECT_EQ(state(id), JobState::kRunning);
  ReportExit(two, start.fence, 1, {.succeeded = true, .last_step = 10});
  EXPECT_EQ(state(id), JobState::kSucceeded);
  EXPECT_EQ(job(id).reason, Reason::kAllRanksSucceeded);
  EXPECT_EQ(job(id).progress.step, 10);
  EXPECT_NE(job(id).finished, absl::InfinitePast());
  EXPECT_TRUE(snapshot()->active_jobs->empty());
  EXPECT_TRUE(snapshot()->outbox->empty());
  EXPECT_TRUE(worker("worker-1").holders.empty());
}

TEST_F(EngineTest, ALostRankBringsTheNextAttemptFromTheNewestCheckpoint) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  EXPECT_OK(Apply(MakeCommit(one, fence, 5)).status);
  EXPECT_OK(Apply(MakeCommit(one, fence, 9)).status);
  ReportExit(two, fence, 1, {.signal = 9, .last_step = 11});
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_EQ(Take<StopAssignment>(one).mode, StopMode::kKill);
  ReportExit(one, fence, 0, {.stopped = true, .signal = 9, .last_step = 11});
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).failure_class, FailureClass::kRankKilled);
  EXPECT_EQ(job(id).restarts, 1u);
  Advance(absl::Seconds(1));
  EXPECT_EQ(state(id), JobState::kStarting);
  const StartAssignment again = StartRanks(one);
  EXPECT_EQ(again.fence.attempt, 2u);
  ASSERT_EQ(again.resume.size(), 2u);
  EXPECT_EQ(again.resume[0].step, 9);
  EXPECT_EQ(again.resume[1].step, 5);
  EXPECT_EQ(job(id).current->first_step, 9);
  EXPECT_EQ(job(id).past.size(), 1u);
  EXPECT_EQ(job(id).past[0]->last_step, 11);
}

}  // namespace
}  // namespace muster::controller
