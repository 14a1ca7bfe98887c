// The job's life, end to end, with fake agents on a simulated clock.
#include "controller/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/protocol/phase_beats.h"
#include "controller/model/pace_rules.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EngineTest : public ::muster::testing::ControllerFixture {};

TEST_F(EngineTest, AJobRunsFromSubmitToSuccess) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  EXPECT_EQ(state(id), JobState::kStarting);
  const StartAssignment start = StartRanks(one);
  EXPECT_EQ(start.world_size, 2u);
  EXPECT_THAT(start.checkpoint_root, StartsWith("/ckpt/job-1-"));
  EXPECT_EQ(start.group_rank, 0u);
  EXPECT_EQ(start.group_world_size, 2u);
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_EQ(StartRanks(two).group_rank, 1u);
  ReportExit(one, start.fence, 0, {.succeeded = true, .last_step = 10});
  EXPECT_EQ(state(id), JobState::kRunning);
  ReportExit(two, start.fence, 1, {.succeeded = true, .last_step = 10});
  EXPECT_EQ(state(id), JobState::kSucceeded);
  EXPECT_EQ(job(id).reason, Reason::kAllRanksSucceeded);
  EXPECT_EQ(job(id).progress.step, 10);
  EXPECT_NE(job(id).finished, absl::InfinitePast());
  EXPECT_TRUE(snapshot()->active_jobs->empty());
  EXPECT_TRUE(snapshot()->outbox.empty());
  EXPECT_TRUE(worker("worker-1").pulse.holders.empty());
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

TEST_F(EngineTest, EachEndOfAJobIsCountedOnce) {
  const uint64_t id = Submit({.min_ranks = 9, .wait_for_capacity = true});
  EXPECT_OK(Cancel(id));
  EXPECT_OK(Apply(ControlJob{.verb = ControlJob::Verb::kRequeue,
                             .job_id = id,
                             .actor = "user:ann",
                             .request_id = "once"})
                .status);
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(snapshot()->counters.jobs_finished.at(JobState::kCancelled), 1u);
  EXPECT_OK(Cancel(id));
  EXPECT_EQ(snapshot()->counters.jobs_finished.at(JobState::kCancelled), 2u);
  Restart();
  EXPECT_EQ(snapshot()->counters.jobs_finished.size(), 0u);
}

TEST_F(EngineTest, TheRestartBudgetEndsTheJobAndACheckpointRefillsIt) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 2});
  for (int i = 0; i < 2; ++i) {
    const Fence fence = StartRanks(one).fence;
    ReportExit(one, fence, 0, {.signal = 11, .last_step = 9 - i});
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

TEST_F(EngineTest, AJobThatSavesElsewhereIsNotEndedByTheLossesOfAMonth) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 1});
  for (int i = 1; i <= 10; ++i) {
    const Fence fence = StartRanks(one).fence;
    ReportExit(one, fence, 0, {.signal = 9, .last_step = 100 * i});
    ASSERT_EQ(state(id), JobState::kPending) << i;
    EXPECT_EQ(job(id).restarts_in_row, 1u);
    Advance(absl::Seconds(2));
    EXPECT_OK(Beat(one).status);
  }
  ReportExit(one, StartRanks(one).fence, 0, {.signal = 9, .last_step = 1000});
  EXPECT_EQ(state(id), JobState::kFailed) << "it stands where it stood before";
  EXPECT_THAT(job(id).message, HasSubstr("without getting further"));
}

TEST_F(EngineTest, ARankThatReportsNoStepOnlyRuns) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  EXPECT_EQ(job(id).message, "rank 0 runs");
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

TEST_F(EngineTest, AGangThatDoesNotStartInTimeStartsOver) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  for (int i = 0; i < 61; ++i) {  // with the first one the rank is heard of
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_EQ(job(id).reason, Reason::kStartTimedOut);
  ReportExit(one, fence, 0, {.stopped = true});
  EXPECT_EQ(job(id).failure_class, FailureClass::kStartFailed);
}

// It rereads a checkpoint of many gigabytes: its ranks say once a second that the phase goes on.
TEST_F(EngineTest, AGangThatSaysThatItsStartGoesOnMayTakeItsTime) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one, /*running=*/false);
  one.alive[0].phase = "load";
  for (int i = 1; i <= 240; ++i) {
    clock_.Advance(absl::Seconds(5));
    one.alive[0].latest[kPhaseBeats] = i;
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(state(id), JobState::kStarting);
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(job(id).reason, Reason::kStartTimedOut);
  EXPECT_THAT(job(id).message, HasSubstr("no first step, and no sign of progress for 5m"));
}

TEST_F(EngineTest, ARankThatHangsIsFoundThoughItsAgentComesAndGoes) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.progress_timeout = absl::Seconds(60)});
  StartRanks(one);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(state(id), JobState::kRunning);
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
    clock_.Advance(absl::Seconds(1));  // away, which does not count
    ASSERT_OK(Connect(one).status);
  }
  Advance(absl::Seconds(6));
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_EQ(job(id).current->failure_class, FailureClass::kHang);
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

// A long evaluation: neither step nor epoch move, and no number is reported.
TEST_F(EngineTest, ARankThatSaysThatItsPhaseGoesOnIsNotHung) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.progress_timeout = absl::Seconds(60)});
  StartRanks(one);
  one.alive[0].phase = "evaluate";
  for (int i = 1; i <= 40; ++i) {
    clock_.Advance(absl::Seconds(5));
    one.alive[0].latest[kPhaseBeats] = i;
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_EQ(job(id).progress.latest.count(kPhaseBeats), 0u) << "that is for no people";
  for (int i = 0; i < 12; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(job(id).reason, Reason::kNoProgress);
}

// The applier's queue was full, or the disk slow, between the look of the loop and the event.
TEST_F(EngineTest, WhoGotOnSinceItWasFoundToHangIsNotEnded) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  EXPECT_OK(Beat(one).status);
  const absl::Duration looked_at = clock_.SinceBoot();
  const Findings found{{RankHung{.job_id = id,
                                 .attempt = 1,
                                 .rank = 0,
                                 .silent_for = absl::Minutes(10),
                                 .progress_at = looked_at}}};
  clock_.Advance(absl::Seconds(1));
  one.alive[0].step = 7;
  EXPECT_OK(Beat(one).status);
  EXPECT_OK(Apply(found).status);
  EXPECT_EQ(state(id), JobState::kRunning);
  clock_.Advance(absl::Seconds(1));
  Findings again = found;
  std::get<RankHung>(again.found[0]).progress_at = clock_.SinceBoot();
  EXPECT_OK(Apply(again).status);
  EXPECT_EQ(state(id), JobState::kRecovering) << "it has stood still since";
}

TEST_F(EngineTest, WhoseAgentIsAwayByNowIsNotEndedAsHung) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  EXPECT_OK(Beat(one).status);
  EXPECT_OK(Apply(WorkerDisconnected{.worker = one.name,
                                     .incarnation = one.incarnation,
                                     .stream = worker(one.name).pulse.stream})
                .status);
  EXPECT_OK(Apply(Findings{{RankHung{.job_id = id,
                                     .attempt = 1,
                                     .rank = 0,
                                     .silent_for = absl::Minutes(10),
                                     .progress_at = clock_.SinceBoot()}}})
                .status);
  EXPECT_EQ(state(id), JobState::kRunning);
}

TEST_F(EngineTest, AStartThatGotOnSinceItWasFoundTooLongIsNotEnded) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one, /*running=*/false);
  EXPECT_OK(Beat(one).status);
  const Findings found{{StartTimedOut{
      .job_id = id, .attempt = 1, .waited = absl::Minutes(5), .got_on_at = clock_.SinceBoot()}}};
  clock_.Advance(absl::Seconds(1));
  one.alive[0].phase = "load";
  EXPECT_OK(Beat(one).status);
  EXPECT_OK(Apply(found).status);
  EXPECT_EQ(state(id), JobState::kStarting);
  Findings again = found;
  std::get<StartTimedOut>(again.found[0]).got_on_at = clock_.SinceBoot();
  EXPECT_OK(Apply(again).status);
  EXPECT_EQ(state(id), JobState::kRecovering) << "it gave no sign since";
}

// What the CLI exits with 13 for.
TEST_F(EngineTest, AJobThatStoodStillAsOftenAsItMayFailsForLackOfProgress) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0, .progress_timeout = absl::Seconds(60)});
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(Beat(one).status);
  const RankHung hung{.job_id = id,
                      .attempt = 1,
                      .silent_for = absl::Seconds(60),
                      .progress_at = clock_.SinceBoot()};
  EXPECT_OK(Apply(Findings{{hung}}).status);
  ReportExit(one, fence, 0, {.signal = 9});
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_EQ(job(id).reason, Reason::kNoProgress);
  EXPECT_THAT(job(id).message, HasSubstr("HANG: rank 0 on worker-1 made no progress for 1m"));
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

// The memory of rank 0 on one and of rank 1 on two, as they say it; what is shown of the gang then.
class GangMemoryTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    one_ = ConnectNew("worker-1", 1);
    two_ = ConnectNew("worker-2", 1);
    id_ = Submit({.min_ranks = 2});
    fence_ = StartRanks(one_).fence;
    StartRanks(two_);
  }
  double Say(Agent& agent, double bytes) {
    agent.alive[0].latest["memory_bytes"] = bytes;
    EXPECT_OK(Beat(agent).status);
    return job(id_).progress.memory_bytes;
  }

  Agent one_, two_;
  uint64_t id_ = 0;
  Fence fence_;
};

TEST_F(GangMemoryTest, IsThatOfTheLargestRankAlsoWhenThatFalls) {
  EXPECT_EQ(Say(one_, 10), 10);
  EXPECT_EQ(Say(two_, 8), 10);
  EXPECT_EQ(Say(two_, 12), 12);
  EXPECT_EQ(Say(one_, 9), 12);
  EXPECT_EQ(Say(two_, 11), 11);
  EXPECT_EQ(Say(two_, 5), 9);
  EXPECT_EQ(Say(one_, 4), 5);
  two_.alive.clear();
  EXPECT_OK(Beat(two_).status);
  EXPECT_EQ(job(id_).progress.memory_bytes, 4) << "the largest rank is gone";
}

TEST_F(GangMemoryTest, IsSaidAnewToARestartedController) {
  EXPECT_EQ(Say(one_, 10), 10);
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 10)).status);  // stores what the job's row has
  Restart();
  EXPECT_EQ(job(id_).progress.memory_bytes, 0);
  Connect(one_);
  Connect(two_);
  EXPECT_EQ(Say(two_, 5), 5);
  EXPECT_EQ(Say(one_, 3), 5);
}

TEST_F(GangMemoryTest, IsOfTheLiveAttemptAlone) {
  EXPECT_EQ(Say(one_, 10), 10);
  EXPECT_EQ(Say(two_, 20), 20);
  ReportExit(one_, fence_, 0, {.signal = 9});
  ReportExit(two_, fence_, 1, {.stopped = true, .signal = 9});
  Advance(absl::Seconds(2));
  StartRanks(one_);
  StartRanks(two_);
  ASSERT_EQ(job(id_).attempt, 2u);
  EXPECT_EQ(Say(one_, 3), 3);
  EXPECT_EQ(Say(two_, 2), 3);
}

TEST_F(EngineTest, ReportsOfStepsForetellTheEnd) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  one.alive[0].total_steps = 100;
  for (const int64_t step : {10, 20, 30}) {
    one.alive[0].step = step;
    EXPECT_OK(Beat(one).status);
    Advance(absl::Seconds(3));
  }
  // 10 steps in 3 s: 70 in 21, of which 3 are over.
  EXPECT_EQ(ForetoldEnd(job(id)), clock_.Now() + absl::Seconds(18));
  Restart();
  EXPECT_EQ(ForetoldEnd(job(id)), absl::InfiniteFuture()) << "measured anew";
}

TEST_F(EngineTest, TheStepDoesNotFallBelowTheCheckpointThatARestartResumesFrom) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeCommit(one, fence, 40)).status);
  one.alive[0].step = 50;
  EXPECT_OK(Beat(one).status);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 50});
  EXPECT_THAT(job(id).message, HasSubstr("restart 1 of 5 in "));
  Advance(absl::Seconds(1));
  StartRanks(one);
  EXPECT_OK(Beat(one).status);  // it has not loaded anything yet
  EXPECT_EQ(job(id).progress.step, 50);
  one.alive[0].step = 41;
  EXPECT_OK(Beat(one).status);
  EXPECT_EQ(job(id).progress.step, 41);
}

}  // namespace
}  // namespace muster::controller
