// Stale, repeated and missing reports: at most one live attempt of a job counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class FencingTest : public ::muster::testing::ControllerFixture {};

TEST_F(FencingTest, AReportOfAnOldAttemptIsRefusedCountedAndItsSenderStopped) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit();
  const Fence old = StartRanks(one).fence;
  for (int i = 0; i < 7; ++i) {  // worker-1 falls silent
    Advance(absl::Seconds(5));
    ASSERT_OK(Beat(two).status);
  }
  ASSERT_EQ(job(id).attempt, 2u);
  Connect(one);
  EXPECT_EQ(snapshot()->counters.stale_reports, 0u);
  const EventResult running = Apply(MakeReport(one, old, 0, RankReport::Kind::kRunning));
  EXPECT_TRUE(running.fenced);
  EXPECT_THAT(running.status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fenced")));
  EXPECT_EQ(snapshot()->counters.stale_reports, 1u);
  const auto stop = Take<StopAssignment>(one);
  EXPECT_EQ(stop.mode, StopMode::kKill);
  EXPECT_EQ(stop.fence.attempt, 1u);
  const EventResult commit = Apply(MakeCommit(one, old, 99));
  EXPECT_TRUE(commit.fenced);
  EXPECT_TRUE(job(id).checkpoints.empty());
  // Refused again when it is repeated.
  CheckpointReport repeat = MakeCommit(one, old, 99);
  repeat.event_seq = --one.event_seq;
  EXPECT_TRUE(Apply(repeat).fenced);
  EXPECT_EQ(state(id), JobState::kStarting) << "the live attempt does not notice";
}

TEST_F(FencingTest, AStaleRankInAHeartbeatIsStopped) {
  Agent one = ConnectNew("worker-1", 1);
  one.alive.push_back({.fence = {.job_id = 77, .attempt = 3}, .rank = 0});
  EXPECT_OK(Beat(one).status);
  EXPECT_EQ(Take<StopAssignment>(one).fence.job_id, 77u);
}

TEST_F(FencingTest, ALateHeartbeatOfARankThatEndedDoesNotStopItsGang) {
  Agent one = ConnectNew("worker-1", 2);
  Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one).fence;
  const std::vector<RankStatus> before = one.alive;
  ReportExit(one, fence, 0, {.succeeded = true});
  one.alive = before;
  EXPECT_OK(Beat(one).status);
  EXPECT_FALSE(WasSent<StopAssignment>(one));
}

TEST_F(FencingTest, ARepeatedReportChangesNothing) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  const CheckpointReport commit = MakeCommit(one, fence, 5);
  EXPECT_OK(Apply(commit).status);
  EXPECT_OK(Apply(commit).status);
  EXPECT_EQ(job(id).checkpoints.size(), 1u);
  EXPECT_EQ(snapshot()->counters.duplicate_events, 1u);
  Restart();
  Connect(one);
  EXPECT_OK(Apply(commit).status) << "the mark is durable";
  EXPECT_EQ(job(id).checkpoints.size(), 1u);
}

TEST_F(FencingTest, AGapInTheReportsIsRefused) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  ++one.event_seq;
  EXPECT_THAT(Apply(MakeReport(one, fence, 0, RankReport::Kind::kExited)).status,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("repeat")));
  EXPECT_EQ(state(id), JobState::kRunning);
  one.event_seq -= 2;
  EXPECT_OK(ReportExit(one, fence, 0, {.succeeded = true}).status);
  EXPECT_EQ(state(id), JobState::kSucceeded);
}

TEST_F(FencingTest, AForgottenWorkerGoesOnWithItsReports) {
  Agent one = ConnectNew("worker-1", 1);
  const auto notify = [&](uint64_t event_seq, bool withdrawn) {
    return Apply(WorkerNotice{.worker = one.name,
                              .incarnation = one.incarnation,
                              .event_seq = event_seq,
                              .message = "a disk is away",
                              .withdrawn = withdrawn})
        .status;
  };
  EXPECT_OK(notify(1, /*withdrawn=*/false));
  Advance(absl::Minutes(1));
  EXPECT_OK(Apply(ForgetWorker{.worker = one.name, .actor = "user:ann"}).status);

  one.acknowledged = 1;
  EXPECT_OK(Connect(one).status);
  EXPECT_THAT(notify(3, /*withdrawn=*/true), StatusIs(absl::StatusCode::kAborted));
  EXPECT_OK(notify(2, /*withdrawn=*/true));
  EXPECT_FALSE(worker(one.name).draining);
  EXPECT_EQ(snapshot()->counters.duplicate_events, 0u);
}

// The end of the rank was acknowledged, and then musterd was started on a backup.
TEST_F(FencingTest, AnAgentThatHasWorkedForANewerStateStartsAgain) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  one.last_started = snapshot()->started;
  one.last_assignment = snapshot()->last_outbox;
  one.acknowledged = one.event_seq;
  Advance(absl::Seconds(1));
  Restart();
  Agent seen = one;
  EXPECT_OK(Connect(seen).status) << "it is the same state";
  seen.acknowledged = one.event_seq + 1;
  EXPECT_THAT(Connect(seen).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("start the agent again")));
  seen = one;
  ++seen.last_assignment;
  EXPECT_THAT(Connect(seen).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("start the agent again")));
  Agent unknown = MakeAgent("worker-2", 1);
  unknown.last_started = one.last_started;
  unknown.last_assignment = one.last_assignment + 1;
  EXPECT_THAT(Connect(unknown).status, StatusIs(absl::StatusCode::kAlreadyExists));
  // Its next life begins with what this state knows.
  Agent reborn = MakeReborn(one);
  EXPECT_OK(Connect(reborn).status);
  Advance(absl::Seconds(5));
  Beat(reborn);
  RunUntilIdle();
  const Fence fence = Take<StartAssignment>(reborn).fence;
  EXPECT_EQ(fence.attempt, 2u);
  EXPECT_OK(ReportExit(reborn, fence, 0, {.succeeded = true}).status);
  EXPECT_EQ(state(id), JobState::kSucceeded);
}

TEST_F(FencingTest, WhatAnAgentTookFromThisControllerIsNoNewerState) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  StartRanks(one);
  one.last_started = snapshot()->started;
  one.last_assignment = snapshot()->last_outbox;
  EXPECT_OK(Connect(one).status);
}

TEST_F(FencingTest, OfAnAgentThatDoesNotSayItAnyFirstReportIsTaken) {
  Agent one = MakeAgent("worker-1", 1);
  one.acknowledged = std::nullopt;
  one.event_seq = 8;
  EXPECT_OK(Connect(one).status);
  Submit();
  const Fence fence = StartRanks(one).fence;
  ++one.event_seq;
  EXPECT_THAT(Apply(MakeReport(one, fence, 0, RankReport::Kind::kExited)).status,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("repeat")));
}

TEST_F(FencingTest, AReportWithoutANumberOrFromAnUnknownWorkerIsRefused) {
  Agent one = ConnectNew("worker-1", 1);
  RankReport report = MakeReport(one, {.job_id = 1, .attempt = 1}, 0, RankReport::Kind::kStarted);
  report.event_seq = 0;
  EXPECT_THAT(Apply(report).status, StatusIs(absl::StatusCode::kInvalidArgument));
  report.worker = "nobody";
  EXPECT_THAT(Apply(report).status, StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(FencingTest, AnAgentThatKnowsANewerTermRefersToAnotherDataFolder) {
  Agent one = MakeAgent("worker-1", 1);
  EXPECT_THAT(Connect(one, /*last_term=*/2).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("term 2")));
  EXPECT_OK(Connect(one, /*last_term=*/1).status);
  EXPECT_THAT(Connect(one, /*last_term=*/2, snapshot()->controller_id).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("term 2")));
}

TEST_F(FencingTest, TheTermOfAnotherControllerSaysNothing) {
  Agent one = MakeAgent("worker-1", 1);
  EXPECT_OK(Connect(one, /*last_term=*/2, std::string(16, 'x')).status);
}

TEST_F(FencingTest, ACommitWithAnotherManifestAtTheSamePathIsRefused) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeCommit(one, fence, 5)).status);
  CheckpointReport other = MakeCommit(one, fence, 5);
  other.manifest_sha256 = "other";
  EXPECT_THAT(Apply(other).status, StatusIs(absl::StatusCode::kAlreadyExists));
  CheckpointReport nameless = MakeCommit(one, fence, 6);
  nameless.path = "";
  EXPECT_THAT(Apply(nameless).status, StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::controller
