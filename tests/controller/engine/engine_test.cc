// The job's life, end to end, with fake agents on a simulated clock.
#include "controller/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::MakeSettings;
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

TEST_F(EngineTest, AGangStartsWholeOrNotAtAll) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t waiting = Submit({.min_ranks = 2, .wait_for_capacity = true});
  EXPECT_EQ(state(waiting), JobState::kPending);
  EXPECT_THAT(job(waiting).message,
              HasSubstr("needs 2 CPU slots in pool default: 1 of 1 free on 1 ready worker"));
  Agent two = ConnectNew("worker-2", 1);
  EXPECT_EQ(state(waiting), JobState::kStarting);
  EXPECT_EQ(worker("worker-1").holders.size(), 1u);
  EXPECT_EQ(worker("worker-2").holders.size(), 1u);
}

TEST_F(EngineTest, AJobThatCanNeverFitIsRefusedUnlessItWantsToWait) {
  // Nothing is known of the pool yet: nothing is refused.
  EXPECT_OK(TrySubmit({.min_ranks = 8}).status);
  Agent one = ConnectNew("worker-1", 2);
  EXPECT_THAT(TrySubmit({.min_ranks = 3}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("refused: needs 3 CPU slots in pool default, but its 1 worker "
                                 "could give at most 2")));
  EXPECT_THAT(TrySubmit({.kind = SlotKind::kGpu}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: ")));
  EXPECT_OK(TrySubmit({.min_ranks = 3, .wait_for_capacity = true}).status);
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
}

TEST_F(EngineTest, TheSameKeyAndSpecGiveTheSameJob) {
  const uint64_t id = Submit({.key = "k", .spec_json = "{1}"});
  const EventResult again = TrySubmit({.key = "k", .spec_json = "{1}"});
  EXPECT_OK(again.status);
  EXPECT_EQ(again.job_id, id);
  EXPECT_TRUE(again.already_existed);
  EXPECT_THAT(TrySubmit({.key = "k", .spec_json = "{2}"}).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("job 1")));
  // Keys are each user's own.
  EXPECT_EQ(TrySubmit({.key = "k", .spec_json = "{2}"}, "bob").job_id, id + 1);
  Restart();
  EXPECT_EQ(TrySubmit({.key = "k", .spec_json = "{1}"}).job_id, id);
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
}

TEST_F(EngineTest, TwoSubmitsWithOneKeyInOneBatchAreOneJob) {
  uint64_t ids[2] = {0, 0};
  for (uint64_t& id : ids) {
    engine_->Post(SubmitJob{.settings = MakeSettings({}), .owner = "ann", .idempotency_key = "k"},
                  [&id](const EventResult& result) { id = result.job_id; });
  }
  engine_->RunUntilIdle();
  EXPECT_EQ(ids[0], 1u);
  EXPECT_EQ(ids[1], 1u);
}

TEST_F(EngineTest, CancelWorksInEveryState) {
  const uint64_t pending = Submit({.min_ranks = 9});
  EXPECT_OK(Cancel(pending));
  EXPECT_EQ(state(pending), JobState::kCancelled);
  EXPECT_OK(Cancel(pending)) << "a second cancel changes nothing";

  Agent one = ConnectNew("worker-1", 1);
  const uint64_t starting = Submit();
  StartAssignment start = StartRanks(one, /*running=*/false);
  EXPECT_OK(Cancel(starting));
  EXPECT_EQ(state(starting), JobState::kStopping);
  EXPECT_OK(Cancel(starting));
  const auto stop = Take<StopAssignment>(one);
  EXPECT_EQ(stop.mode, StopMode::kTerm);
  EXPECT_EQ(stop.grace, absl::Seconds(10));
  ReportExit(one, start.fence, 0, {.stopped = true});
  EXPECT_EQ(state(starting), JobState::kCancelled);
  EXPECT_TRUE(worker("worker-1").holders.empty());

  const uint64_t running = Submit();
  start = StartRanks(one);
  EXPECT_OK(Cancel(running));
  ReportExit(one, start.fence, 0, {.succeeded = true});
  EXPECT_EQ(state(running), JobState::kCancelled) << "the user asked first";

  const uint64_t done = Submit();
  start = StartRanks(one);
  ReportExit(one, start.fence, 0, {.succeeded = true});
  EXPECT_THAT(Cancel(done), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("is SUCCEEDED: it has ended")));
  EXPECT_THAT(Cancel(99), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 99")));
}

TEST_F(EngineTest, CancelWhileRecoveringEndsCancelled) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  ReportExit(one, fence, 0, {.exit_code = 1});
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_OK(Cancel(id));
  EXPECT_EQ(state(id), JobState::kStopping);
  ReportExit(two, fence, 1, {.stopped = true});
  EXPECT_EQ(state(id), JobState::kCancelled);
}

TEST_F(EngineTest, TheRestartBudgetEndsTheJobAndACheckpointRefillsIt) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 2});
  for (int i = 0; i < 2; ++i) {
    const Fence fence = StartRanks(one).fence;
    ReportExit(one, fence, 0, {.signal = 11, .last_step = i});
    Advance(absl::Seconds(2));
    EXPECT_OK(Beat(one).status);
  }
  EXPECT_EQ(job(id).restarts_in_row, 2u);
  Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeCommit(one, fence, 50)).status);
  EXPECT_EQ(job(id).restarts_in_row, 0u);
  for (int i = 0; i < 2; ++i) {
    ReportExit(one, fence, 0, {.signal = 11, .last_step = 60 + i});
    EXPECT_EQ(state(id), JobState::kPending);
    Advance(absl::Seconds(2));
    EXPECT_OK(Beat(one).status);
    fence = StartRanks(one).fence;
  }
  ReportExit(one, fence, 0, {.signal = 11, .last_step = 63});
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_EQ(job(id).reason, Reason::kRestartBudgetSpent);
  EXPECT_EQ(job(id).failure_class, FailureClass::kRankKilled);
  EXPECT_THAT(job(id).message, HasSubstr("restart.max_restarts: 2"));
}

TEST_F(EngineTest, SomeFailuresAreNotTriedAgain) {
  Agent one = ConnectNew("worker-1", 1);
  for (FailureClass kind : {FailureClass::kDataError, FailureClass::kOutOfMemory}) {
    const uint64_t id = Submit();
    const Fence fence = StartRanks(one).fence;
    ReportExit(one, fence, 0, {.failure_class = kind, .exit_code = 1, .message = "why"});
    EXPECT_EQ(state(id), JobState::kFailed);
    EXPECT_EQ(job(id).reason, Reason::kNotRetryable);
    EXPECT_THAT(job(id).message, HasSubstr("why"));
  }
  const uint64_t bad_spec = Submit();
  const Fence fence = StartRanks(one, false).fence;
  ReportExit(one, fence, 0, {.failure_class = FailureClass::kStartFailed, .exit_code = 2});
  EXPECT_EQ(state(bad_spec), JobState::kFailed);
}

TEST_F(EngineTest, TheCauseIsNeverThatAPeerWasLost) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  ReportExit(one, fence, 0, {.failure_class = FailureClass::kPeerLost, .exit_code = 1});
  ReportExit(two, fence, 1,
             {.failure_class = FailureClass::kNonFinite, .exit_code = 1, .message = "NaN"});
  EXPECT_EQ(job(id).failure_class, FailureClass::kNonFinite);
  EXPECT_THAT(job(id).current->cause, HasSubstr("rank 1 on worker-2: NaN"));
}

TEST_F(EngineTest, ANoticeSavesAndRestartsForFree) {
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
}

TEST_F(EngineTest, ASilentWorkerIsSuspectThenLostAndItsJobMoves) {
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

TEST_F(EngineTest, NobodyIsLostWithinTheStartupGrace) {
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

TEST_F(EngineTest, AnAgentThatStartsAnewLosesItsRanksAtOnce) {
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

TEST_F(EngineTest, AGangThatDoesNotStartInTimeStartsOver) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_EQ(job(id).reason, Reason::kStartTimedOut);
  ReportExit(one, fence, 0, {.stopped = true});
  EXPECT_EQ(job(id).failure_class, FailureClass::kStartFailed);
}

TEST_F(EngineTest, ARankWithoutProgressIsHung) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.progress_timeout = absl::Seconds(60)});
  StartRanks(one);
  for (int i = 0; i < 20; ++i) {  // steps keep it alive
    clock_.Advance(absl::Seconds(5));
    one.alive[0].step = i;
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(state(id), JobState::kRunning);
  for (int i = 0; i < 12; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_EQ(job(id).reason, Reason::kNoProgress);
  EXPECT_THAT(job(id).message, HasSubstr("rank 0 on worker-1 made no progress for 1m"));
  EXPECT_EQ(job(id).current->failure_class, FailureClass::kHang);
}

TEST_F(EngineTest, ARefusedAssignmentRevokesThePlacement) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Take<StartAssignment>(one, "no trainer");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_THAT(job(id).current->cause, HasSubstr("refused its ranks: no trainer"));
  EXPECT_TRUE(worker("worker-1").holders.empty());
}

TEST_F(EngineTest, ARefusalOfAWorkerThatLeavesIsFree) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  EXPECT_OK(Apply(WorkerNotice{.worker = one.name, .incarnation = one.incarnation}).status);
  Take<StartAssignment>(one, "this worker is stopping");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).failure_class, FailureClass::kPreempted);
}

TEST_F(EngineTest, ProgressIsShownAndOutlivesTheAttempt) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  one.alive[0].step = 42;
  one.alive[0].total_steps = 100;
  one.alive[0].phase = "train";
  one.alive[0].latest = {{"loss", 0.5}, {"memory_bytes", 10}, {"validation_accuracy", 0.9}};
  EXPECT_OK(Beat(one).status);
  one.alive[0].latest["validation_accuracy"] = 0.8;
  EXPECT_OK(Beat(one).status);
  ReportExit(one, fence, 0, {.succeeded = true, .last_step = 100});
  Restart();
  const JobProgress progress = job(id).progress;
  EXPECT_EQ(progress.step, 100);
  EXPECT_EQ(progress.total_steps, 100);
  EXPECT_EQ(progress.latest.at("loss"), 0.5);
  EXPECT_EQ(progress.memory_peak_bytes, 10);
  EXPECT_EQ(progress.best_validation_accuracy, 0.9);
  EXPECT_EQ(progress.phase, "done");
}

TEST_F(EngineTest, TheStepDoesNotFallBelowTheCheckpointThatARestartResumesFrom) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeCommit(one, fence, 40)).status);
  one.alive[0].step = 50;
  EXPECT_OK(Beat(one).status);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 50});
  EXPECT_THAT(job(id).message, HasSubstr("restart 1 of 5 in 1s"));
  Advance(absl::Seconds(1));
  StartRanks(one);
  EXPECT_OK(Beat(one).status);  // it has not loaded anything yet
  EXPECT_EQ(job(id).progress.step, 50);
  one.alive[0].step = 41;
  EXPECT_OK(Beat(one).status);
  EXPECT_EQ(job(id).progress.step, 41);
}

TEST_F(EngineTest, AForecastSaysWhereOrWhy) {
  ConnectNew("worker-1", 2);
  EXPECT_EQ(*engine_->Forecast(MakeSettings({.min_ranks = 2})->needs),
            "would start now: 2 ranks on worker-1");
  Submit({.min_ranks = 2});
  EXPECT_THAT(*engine_->Forecast(MakeSettings({})->needs),
              HasSubstr("would wait: needs 1 CPU slot"));
  EXPECT_THAT(engine_->Forecast(MakeSettings({.min_ranks = 3})->needs).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: ")));
}

TEST_F(EngineTest, AStreamThatEndsAfterItsSuccessorCameChangesNothing) {
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

TEST_F(EngineTest, WatchersHearOfEachVersionUntilTheyLeave) {
  int versions = 0;
  std::shared_ptr<void> handle = engine_->Subscribe([&](const auto&) { ++versions; });
  Submit();
  EXPECT_GT(versions, 0);
  const int before = versions;
  handle.reset();
  Submit();
  EXPECT_EQ(versions, before);
}

}  // namespace
}  // namespace muster::controller
