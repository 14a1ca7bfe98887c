// How workers come, stay and go, and what their jobs make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class WorkerRulesTest : public ::muster::testing::ControllerFixture {};

TEST_F(WorkerRulesTest, ANoticeSavesAndRestartsForFree) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Agent three = ConnectNew("worker-3", 1);
  const uint64_t id = Submit({.min_ranks = 2, .max_restarts = 0});
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  EXPECT_OK(Apply(WorkerNotice{.worker = one.name,
                               .incarnation = one.incarnation,
                               .message = "SIGTERM",
                               .grace = absl::Seconds(20)})
                .status);
  EXPECT_EQ(Take<StopAssignment>(one).mode, StopMode::kSave);
  const auto stop = Take<StopAssignment>(two);
  EXPECT_EQ(stop.mode, StopMode::kSave);
  EXPECT_EQ(stop.grace, absl::Seconds(20));
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_EQ(job(id).reason, Reason::kWorkerDraining) << "said at once, not when ranks have left";
  EXPECT_EQ(job(id).message, "worker worker-1 will go away: SIGTERM");
  const size_t events = job(id).events.size();
  EXPECT_OK(Apply(CordonWorker{.worker = "worker-1", .actor = "user:ann"}).status);
  EXPECT_EQ(job(id).events.size(), events) << "once";
  ReportExit(two, fence, 1, {.stopped = true, .last_step = 7});
  EXPECT_EQ(state(id), JobState::kRecovering);
  // Rank 0 commits what it saved although another rank has left already.
  EXPECT_OK(Apply(MakeCommit(one, fence, 7)).status);
  ReportExit(one, fence, 0, {.stopped = true, .last_step = 7});
  EXPECT_EQ(job(id).failure_class, FailureClass::kPreempted);
  EXPECT_EQ(state(id), JobState::kStarting) << "at once, on the other two workers";
  EXPECT_EQ(job(id).restarts_in_row, 0u);
  for (const Rank& rank : job(id).current->ranks) EXPECT_NE(rank.worker, "worker-1");
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "draining");
  EXPECT_THAT(job(id).past.at(0)->cause, HasSubstr("worker-1")) << "not the rank that left first";
}

TEST_F(WorkerRulesTest, ASilentWorkerIsSuspectThenLostAndItsJobMoves) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Advance(absl::Seconds(30));  // past the startup grace, both silent
  EXPECT_EQ(worker("worker-1").presence, Presence::kLost);
  EXPECT_EQ(one.link->closed.code(), absl::StatusCode::kUnavailable);
  Connect(one);
  Connect(two);
  const uint64_t id = Submit();
  StartRanks(one);
  Advance(absl::Seconds(9));
  EXPECT_EQ(worker("worker-1").presence, Presence::kSuspect);
  EXPECT_OK(Beat(two).status);
  EXPECT_EQ(state(id), JobState::kRunning);
  Advance(absl::Seconds(6));
  EXPECT_EQ(worker("worker-1").presence, Presence::kLost);
  EXPECT_EQ(job(id).failure_class, FailureClass::kWorkerLost);
  EXPECT_EQ(job(id).attempt, 1u);
  EXPECT_OK(Beat(two).status);
  Advance(absl::Seconds(1));
  EXPECT_EQ(state(id), JobState::kStarting);
  EXPECT_EQ(job(id).current->ranks[0].worker, "worker-2");
  // The old process may still be alive: its slot is not given away until it is confirmed dead.
  EXPECT_EQ(worker("worker-1").holders.size(), 1u);
  EXPECT_THAT(Beat(one).status, StatusIs(absl::StatusCode::kUnavailable));
  const EventResult hello = Connect(one);
  ASSERT_EQ(hello.stale.size(), 1u);
  EXPECT_EQ(hello.stale[0].attempt, 1u);
  const EventResult exit = ReportExit(one, one.alive[0].fence, 0, {.signal = 9});
  EXPECT_TRUE(exit.fenced);
  EXPECT_TRUE(worker("worker-1").holders.empty());
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(WorkerRulesTest, NobodyIsLostWithinTheStartupGrace) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  Restart();
  Advance(absl::Seconds(29));
  EXPECT_EQ(worker("worker-1").presence, Presence::kSuspect);
  EXPECT_EQ(state(id), JobState::kRunning);
  Advance(absl::Seconds(1));
  EXPECT_EQ(worker("worker-1").presence, Presence::kLost);
}

TEST_F(WorkerRulesTest, AnAgentThatStartsAnewLosesItsRanksAtOnce) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  StartRanks(one);
  const Fence fence = StartRanks(two).fence;
  Agent reborn = MakeAgent("worker-1", 1);
  EXPECT_OK(Connect(reborn).status);
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_EQ(one.link->closed.code(), absl::StatusCode::kAborted);
  ReportExit(two, fence, 1, {.stopped = true});
  EXPECT_EQ(job(id).failure_class, FailureClass::kWorkerLost);
  Advance(absl::Seconds(1));
  EXPECT_EQ(state(id), JobState::kStarting);
  // The former agent cannot come back, nor report anything.
  EXPECT_THAT(Connect(one).status, StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Apply(MakeReport(one, fence, 0, RankReport::Kind::kExited)).status,
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(WorkerRulesTest, ARefusedAssignmentRevokesThePlacement) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Take<StartAssignment>(one, "no trainer");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_THAT(job(id).current->cause, HasSubstr("refused its ranks: no trainer"));
  EXPECT_TRUE(worker("worker-1").holders.empty());
}

TEST_F(WorkerRulesTest, ARefusalOfAWorkerThatLeavesIsFree) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  EXPECT_OK(Apply(WorkerNotice{.worker = one.name, .incarnation = one.incarnation}).status);
  Take<StartAssignment>(one, "this worker is stopping");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).failure_class, FailureClass::kPreempted);
}

TEST_F(WorkerRulesTest, AStreamThatEndsAfterItsSuccessorCameChangesNothing) {
  Agent one = ConnectNew("worker-1", 1);
  const std::shared_ptr<WorkerLink> first = one.link;
  Connect(one);
  engine_->Disconnect(one.name, one.incarnation, first.get());
  engine_->RunUntilIdle();
  EXPECT_TRUE(worker("worker-1").connected);
  engine_->Disconnect(one.name, one.incarnation, one.link.get());
  engine_->RunUntilIdle();
  EXPECT_FALSE(worker("worker-1").connected);
}

TEST_F(WorkerRulesTest, OnlySoManyMetricNamesOfAJobAreShown) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  for (int i = 0; i < 10; ++i) {
    one.alive[0].latest.clear();
    for (int j = 0; j < 64; ++j) one.alive[0].latest[absl::StrCat("m", i, "-", j)] = 1;
    EXPECT_OK(Beat(one).status);
  }
  one.alive[0].latest = {{"m0-0", 2}};
  EXPECT_OK(Beat(one).status);
  EXPECT_EQ(job(id).progress.latest.size(), kMaxShownMetrics);
  EXPECT_EQ(job(id).progress.latest.at("m0-0"), 2) << "a known one is kept up to date";
  RankReport report = MakeReport(one, fence, 0, RankReport::Kind::kExited);
  report.succeeded = true;
  for (int j = 0; j < 300; ++j) report.results[absl::StrCat("r", j)] = 1;
  EXPECT_OK(Apply(report).status);
  EXPECT_EQ(job(id).results.size(), kMaxShownMetrics);
}

}  // namespace
}  // namespace muster::controller
