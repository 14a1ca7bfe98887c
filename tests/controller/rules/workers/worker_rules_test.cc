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
                               .event_seq = ++one.event_seq,
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

// It was stopped, or its machine frozen: nobody was heard meanwhile.
TEST_F(WorkerRulesTest, NobodyIsGivenUpForTimeInWhichTheControllerStoodStill) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  for (int i = 0; i < 15; ++i) {  // past the grace of the start
    Advance(absl::Seconds(3));
    ASSERT_OK(Beat(one).status);
  }
  clock_.Advance(absl::Minutes(20));
  RunUntilIdle();
  EXPECT_EQ(worker("worker-1").presence(), Presence::kSuspect);
  EXPECT_OK(Beat(one).status);
  EXPECT_EQ(worker("worker-1").presence(), Presence::kReady);
  EXPECT_TRUE(worker("worker-1").failures.empty());
  EXPECT_EQ(state(id), JobState::kRunning) << "it could not say that it got on";
  Advance(absl::Seconds(29));
  EXPECT_NE(worker("worker-1").presence(), Presence::kLost);
  Advance(absl::Seconds(5));
  EXPECT_EQ(worker("worker-1").presence(), Presence::kLost) << "who says nothing then either";
}

TEST_F(WorkerRulesTest, ASilentWorkerIsSuspectThenLostAndItsJobMoves) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Advance(absl::Seconds(30));  // past the startup grace, both silent
  EXPECT_EQ(worker("worker-1").presence(), Presence::kLost);
  EXPECT_EQ(one.link->closed.code(), absl::StatusCode::kUnavailable);
  Connect(one);
  Connect(two);
  const uint64_t id = Submit();
  StartRanks(one);
  Advance(absl::Seconds(9));
  EXPECT_EQ(worker("worker-1").presence(), Presence::kSuspect);
  EXPECT_OK(Beat(two).status);
  EXPECT_EQ(state(id), JobState::kRunning);
  Advance(absl::Seconds(6));
  EXPECT_EQ(worker("worker-1").presence(), Presence::kLost);
  EXPECT_EQ(job(id).failure_class, FailureClass::kWorkerLost);
  EXPECT_EQ(job(id).attempt, 1u);
  EXPECT_OK(Beat(two).status);
  Advance(absl::Seconds(1));
  EXPECT_EQ(state(id), JobState::kStarting);
  EXPECT_EQ(job(id).current->ranks[0].worker, "worker-2");
  // The old process may still be alive: its slot is not given away until it is confirmed dead.
  EXPECT_EQ(worker("worker-1").pulse.holders.size(), 1u);
  EXPECT_THAT(Beat(one).status, StatusIs(absl::StatusCode::kUnavailable));
  const EventResult hello = Connect(one);
  ASSERT_EQ(hello.stale.size(), 1u);
  EXPECT_EQ(hello.stale[0].attempt, 1u);
  const EventResult exit = ReportExit(one, one.alive[0].fence, 0, {.signal = 9});
  EXPECT_TRUE(exit.fenced);
  EXPECT_TRUE(worker("worker-1").pulse.holders.empty());
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(WorkerRulesTest, NobodyIsLostWithinTheStartupGrace) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  Restart();
  Advance(absl::Seconds(29));
  EXPECT_EQ(worker("worker-1").presence(), Presence::kSuspect);
  EXPECT_EQ(state(id), JobState::kRunning);
  Advance(absl::Seconds(1));
  EXPECT_EQ(worker("worker-1").presence(), Presence::kLost);
}

TEST_F(WorkerRulesTest, AnAgentThatStartsAnewLosesItsRanksAtOnce) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  StartRanks(one);
  const Fence fence = StartRanks(two).fence;
  Agent reborn = MakeReborn(one);
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
  EXPECT_TRUE(worker("worker-1").pulse.holders.empty());
}

TEST_F(WorkerRulesTest, ARefusalOfAWorkerThatLeavesIsFree) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  EXPECT_OK(
      Apply(WorkerNotice{
                .worker = one.name, .incarnation = one.incarnation, .event_seq = ++one.event_seq})
          .status);
  Take<StartAssignment>(one, "this worker is stopping");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).failure_class, FailureClass::kPreempted);
}

TEST_F(WorkerRulesTest, ANoticeThatIsWithdrawnLetsWorkIn) {
  Agent one = ConnectNew("worker-1", 1);
  const auto notice = [&one](bool withdrawn) {
    return WorkerNotice{.worker = one.name,
                        .incarnation = one.incarnation,
                        .event_seq = ++one.event_seq,
                        .message = "a test",
                        .withdrawn = withdrawn};
  };
  EXPECT_OK(Apply(notice(false)).status);
  const uint64_t id = Submit({.wait_for_capacity = true});
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_OK(Apply(notice(true)).status);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "ready");
  EXPECT_EQ(state(id), JobState::kStarting);
}

// It was told to stop, or found something in its way, while it was away: its notice follows the
// hello, and the scheduler looks in between.
TEST_F(WorkerRulesTest, NothingIsPlacedBetweenAHelloThatTakesNoWorkAndItsNotice) {
  const uint64_t id = Submit({.wait_for_capacity = true});
  Agent one = MakeAgent("worker-1", 1);
  one.takes_no_work = true;
  EXPECT_OK(Connect(one).status);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "draining");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).attempt, 0u);
  Restart();
  EXPECT_OK(Connect(one).status);
  // It is fit again, while it is away; that was said in a notice, which comes now.
  one.takes_no_work = false;
  EXPECT_OK(Connect(one).status);
  EXPECT_EQ(state(id), JobState::kPending) << "its notices have not come";
  const auto notice = [&one](bool withdrawn) {
    return WorkerNotice{.worker = one.name,
                        .incarnation = one.incarnation,
                        .event_seq = ++one.event_seq,
                        .message = "a test",
                        .withdrawn = withdrawn};
  };
  EXPECT_OK(Apply(notice(false)).status);
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_OK(Apply(notice(true)).status);
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(WorkerRulesTest, AHelloThatTakesNoWorkLeavesTheGangsToTheNotice) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  one.takes_no_work = true;
  EXPECT_OK(Connect(one).status);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "draining");
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_FALSE(WasSent<StopAssignment>(one));
  EXPECT_OK(Apply(WorkerNotice{.worker = one.name,
                               .incarnation = one.incarnation,
                               .event_seq = ++one.event_seq,
                               .message = "SIGTERM",
                               .grace = absl::Seconds(20)})
                .status);
  EXPECT_EQ(Take<StopAssignment>(one).mode, StopMode::kSave);
}

// As agents sent it before they numbered it.
TEST_F(WorkerRulesTest, ANoticeWithoutANumberIsTakenFromWhoHoldsTheName) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  WorkerNotice notice{.worker = one.name, .incarnation = "a former one", .message = "SIGTERM"};
  EXPECT_THAT(Apply(notice).status, StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_FALSE(WasSent<StopAssignment>(one));
  notice.incarnation = one.incarnation;
  EXPECT_OK(Apply(notice).status);
  EXPECT_EQ(Take<StopAssignment>(one).mode, StopMode::kSave);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "draining");
  EXPECT_OK(ReportExit(one, fence, 0, {.stopped = true}).status) << "the numbers go on as before";
  EXPECT_EQ(state(id), JobState::kPending);
}

TEST_F(WorkerRulesTest, AStreamThatEndsAfterItsSuccessorCameChangesNothing) {
  Agent one = ConnectNew("worker-1", 1);
  const std::shared_ptr<WorkerLink> first = one.link;
  Connect(one);
  engine_->Disconnect(one.name, one.incarnation, first.get());
  engine_->RunUntilIdle();
  EXPECT_TRUE(worker("worker-1").pulse.connected);
  engine_->Disconnect(one.name, one.incarnation, one.link.get());
  engine_->RunUntilIdle();
  EXPECT_FALSE(worker("worker-1").pulse.connected);
}

TEST_F(WorkerRulesTest, ALostWorkerThatHoldsNothingIsForgottenAfterATime) {
  ConnectNew("spot", 1);
  ConnectNew("drained", 1);
  Agent holds = ConnectNew("holds", 1);
  ASSERT_OK(Apply(CordonWorker{.worker = "spot", .actor = "user:ann"}).status);
  ASSERT_OK(Apply(CordonWorker{.worker = "drained", .actor = "user:ann"}).status);
  Submit();
  StartRanks(holds);
  ASSERT_OK(Apply(CordonWorker{.worker = "spot", .cordoned = false, .actor = "user:ann"}).status);
  Advance(absl::Minutes(1));
  for (const char* name : {"spot", "drained", "holds"}) {
    ASSERT_EQ(worker(name).presence(), Presence::kLost) << name;
  }
  // A controller that starts in between counts on.
  Advance(absl::Hours(12));
  Restart();
  Advance(absl::Hours(11));
  EXPECT_NE(snapshot()->FindWorker("spot"), nullptr);
  Advance(absl::Hours(1));
  EXPECT_EQ(snapshot()->FindWorker("spot"), nullptr);
  EXPECT_NE(snapshot()->FindWorker("drained"), nullptr) << "a person's word is kept";
  EXPECT_NE(snapshot()->FindWorker("holds"), nullptr) << "its rank may live";
  Restart();
  EXPECT_EQ(snapshot()->FindWorker("spot"), nullptr);
  EXPECT_EQ(snapshot()->workers.size(), 2u);

  // Its name is as good as new.
  Agent back = ConnectNew("spot", 1);
  EXPECT_EQ(worker("spot").presence(), Presence::kReady);
  EXPECT_OK(Beat(back).status);
}

// A spot machine that died with a rank stayed in the list, and kept its job there, for ever.
TEST_F(WorkerRulesTest, AWorkerThatWasLostWithRanksIsTakenForGoneAfterAWeek) {
  Agent holds = ConnectNew("holds", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  StartRanks(holds);
  Advance(absl::Minutes(1));
  ASSERT_EQ(state(id), JobState::kFailed);
  Advance(absl::Hours(6 * 24));
  // Another controller cannot tell how long it was away, since the wall clock may have been set.
  clock_.JumpWall(absl::Hours(1000));
  Restart();
  Advance(absl::Hours(7 * 24 - 1));
  ASSERT_NE(snapshot()->FindWorker("holds"), nullptr) << "its rank may live";
  EXPECT_TRUE(job(id).current->ranks[0].holds_slots);
  Advance(absl::Hours(2));
  EXPECT_EQ(snapshot()->FindWorker("holds"), nullptr);
  EXPECT_FALSE(job(id).current->ranks[0].holds_slots);
  Restart();
  EXPECT_EQ(snapshot()->workers.size(), 0u);

  // It was not gone after all: it is told to kill what it still has.
  const EventResult again = Connect(holds);
  EXPECT_OK(again.status);
  ASSERT_EQ(again.stale.size(), 1u);
  EXPECT_EQ(again.stale[0].job_id, id);
}

// What no worker of today could hold is refused; one lost within the last day may come back.
TEST_F(WorkerRulesTest, HowLongAWorkerIsAwayDoesNotFollowTheWallClock) {
  ConnectNew("worker-1", 2);
  Agent here = ConnectNew("worker-2", 1);
  for (int i = 0; i < 30; ++i) {
    Advance(absl::Seconds(2));
    EXPECT_OK(Beat(here).status);
  }
  ASSERT_EQ(worker("worker-1").presence(), Presence::kLost);
  clock_.JumpWall(absl::Hours(1000));
  EXPECT_OK(TrySubmit({.min_ranks = 2}).status) << "it has been away for a minute";
  clock_.JumpWall(-absl::Hours(3000));
  Advance(absl::Hours(23));
  EXPECT_OK(TrySubmit({.min_ranks = 2}).status);
}

TEST_F(WorkerRulesTest, APersonForgetsAWorkerOnceNothingIsLostWithIt) {
  Agent agent = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  StartRanks(agent);
  const auto forget = [&](const std::string& name, bool gone = false) {
    return Apply(ForgetWorker{.worker = name, .actor = "user:ann", .gone = gone}).status;
  };
  EXPECT_THAT(forget("worker-9"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("muster nodes")));
  EXPECT_THAT(forget("worker-1", /*gone=*/true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is ready: stop its")));
  Advance(absl::Minutes(1));
  ASSERT_EQ(state(id), JobState::kFailed);
  EXPECT_THAT(forget("worker-1"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("say --gone")));
  EXPECT_OK(forget("worker-1", /*gone=*/true));
  EXPECT_EQ(snapshot()->FindWorker("worker-1"), nullptr);
  EXPECT_FALSE(job(id).current->ranks[0].holds_slots);
  Restart();
  EXPECT_EQ(snapshot()->workers.size(), 0u);
  EXPECT_EQ(state(id), JobState::kFailed);

  // The agent was not gone after all: it is told to kill what it still has.
  const EventResult again = Connect(agent);
  EXPECT_OK(again.status);
  ASSERT_EQ(again.stale.size(), 1u);
  EXPECT_EQ(again.stale[0].job_id, id);
}

TEST_F(WorkerRulesTest, ADrainThatAJobDoesNotTakeLeavesNoTrace) {
  Agent agent = ConnectNew("worker-1", 2);
  const uint64_t leaving = Submit();
  const uint64_t running = Submit();
  StartRanks(agent);
  StartRanks(agent);
  ASSERT_OK(Cancel(leaving));
  EXPECT_OK(Apply(WorkerNotice{.worker = agent.name,
                               .incarnation = agent.incarnation,
                               .event_seq = ++agent.event_seq,
                               .message = "SIGTERM",
                               .grace = absl::Seconds(20)})
                .status);
  EXPECT_EQ(state(leaving), JobState::kStopping);
  EXPECT_TRUE(job(running).current->save_requested);
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
