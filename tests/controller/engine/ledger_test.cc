// What each slot-second was good for: one story a label, with times to the second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "controller/model/ledger_rules.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::JobOptions;
using ::testing::IsEmpty;

class LedgerTest : public ::muster::testing::ControllerFixture {
 protected:
  void TearDown() override { EXPECT_THAT(testing::ModelFaults(*snapshot()), IsEmpty()); }

  // Rank 0 of the job says where it is.
  void Say(Agent& agent, const std::string& phase, int64_t step = 0, double stall = 0) {
    for (RankStatus& status : agent.alive) {
      status.phase = phase;
      status.step = step;
      if (stall > 0) status.latest["save_stall_seconds"] = stall;
    }
    EXPECT_OK(Beat(agent).status);
  }

  JobLedger Now(uint64_t id) {
    return LedgerAt(job(id), snapshot()->ledger_origin + clock_.SinceBoot());
  }
  double Seconds(uint64_t id, TimeLabel label) {
    return absl::ToDoubleSeconds(Now(id).times[label]);
  }

  // A job of one rank that trains at step 0.
  uint64_t Train(Agent& agent, const JobOptions& options = {}) {
    const uint64_t id = Submit(options);
    fence_ = StartRanks(agent).fence;
    Say(agent, "train", 0);
    return id;
  }

  // So long, with heartbeats.
  void Pass(absl::Duration time, std::initializer_list<Agent*> agents) {
    const absl::Duration end = clock_.SinceBoot() + time;
    while (clock_.SinceBoot() < end) {
      Advance(std::min(absl::Seconds(3), end - clock_.SinceBoot()));
      for (Agent* agent : agents) EXPECT_OK(Beat(*agent).status);
    }
  }
  absl::Status Tell(uint64_t id, ControlJob::Verb verb) {
    return Apply(ControlJob{.verb = verb,
                            .job_id = id,
                            .actor = "user:ann",
                            .whole_array = false,
                            .request_id = ""})
        .status;
  }

  Fence fence_;
};

TEST_F(LedgerTest, EachPhaseHasItsLabelAndTheQueueIsCountedApart) {
  const uint64_t id = Submit({.min_ranks = 2});
  Advance(absl::Seconds(7));
  Agent one = ConnectNew("worker-1", 2);
  Advance(absl::Seconds(2));
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  Advance(absl::Seconds(1));
  Say(one, "rendezvous");
  Advance(absl::Seconds(3));
  Say(one, "load");
  Advance(absl::Seconds(4));
  Say(one, "train", 0);
  Advance(absl::Seconds(5));
  Say(one, "evaluate", 10);
  Advance(absl::Seconds(1));
  Say(one, "save", 10);
  Advance(absl::Seconds(2));
  Say(one, "done", 10);
  Advance(absl::Milliseconds(500));
  ReportExit(one, fence, 0, {.succeeded = true, .last_step = 10});
  Advance(absl::Milliseconds(250));
  ReportExit(one, fence, 1, {.succeeded = true, .last_step = 10});
  EXPECT_EQ(state(id), JobState::kSucceeded);
  Advance(absl::Hours(1));

  const JobLedger ledger = Now(id);
  EXPECT_EQ(ledger.queued, absl::Seconds(7));
  EXPECT_EQ(ledger.times[TimeLabel::kStart], absl::Seconds(2 * 3));
  EXPECT_EQ(ledger.times[TimeLabel::kRendezvous], absl::Seconds(2 * 3));
  EXPECT_EQ(ledger.times[TimeLabel::kLoad], absl::Seconds(2 * 4));
  EXPECT_EQ(ledger.times[TimeLabel::kProductive], absl::Seconds(2 * 6));
  EXPECT_EQ(ledger.times[TimeLabel::kSaveStall], absl::Seconds(2 * 2));
  EXPECT_EQ(ledger.times[TimeLabel::kIdle], absl::Milliseconds(2 * 500 + 250));
  EXPECT_EQ(ledger.times.total(), absl::Milliseconds(2 * 18500 + 250));
  EXPECT_EQ(ledger.settled, ledger.times) << "nothing of an ended job is open";
}

TEST_F(LedgerTest, ACommandIsProductiveFromItsStart) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(one);
  for (int i = 0; i < 10; ++i) {
    Say(one, "run");
    Advance(absl::Seconds(3));
  }
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 30);
  EXPECT_EQ(Now(id).times.total(), absl::Seconds(30));
}

TEST_F(LedgerTest, WhatTheLoopWaitedForCheckpointsIsNotProductive) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one);
  Advance(absl::Seconds(10));
  Say(one, "train", 20, /*stall=*/0.1);
  EXPECT_EQ(Seconds(id, TimeLabel::kSaveStall), 2);
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 8);
  Advance(absl::Seconds(1));
  Say(one, "train", 40, /*stall=*/0.1);  // more than there was
  EXPECT_EQ(Seconds(id, TimeLabel::kSaveStall), 3);
}

TEST_F(LedgerTest, StepsThatWereDoneBeforeAreRecomputed) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one);
  Advance(absl::Seconds(10));
  EXPECT_OK(Apply(MakeCommit(one, fence_, 40)).status);
  Say(one, "train", 100);
  ReportExit(one, fence_, 0, {.signal = 9, .last_step = 100});
  Advance(absl::Seconds(5));  // over the back-off
  StartRanks(one);
  Say(one, "load");
  Advance(absl::Seconds(2));
  Say(one, "train", 40);
  Advance(absl::Seconds(3));
  Say(one, "train", 70);
  EXPECT_EQ(Seconds(id, TimeLabel::kRecompute), 3);
  Advance(absl::Seconds(4));
  Say(one, "train", 110);  // 30 steps again, 10 new
  EXPECT_EQ(Seconds(id, TimeLabel::kRecompute), 6);
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 11);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 12);
  EXPECT_EQ(Seconds(id, TimeLabel::kLoad), 2);
}

TEST_F(LedgerTest, AHangIsCountedFromTheLastProgress) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one, {.progress_timeout = absl::Seconds(60)});
  Advance(absl::Seconds(10));
  Say(one, "train", 5);
  for (int i = 0; i < 20; ++i) {
    Advance(absl::Seconds(3));
    Say(one, "train", 5);
  }
  ASSERT_EQ(state(id), JobState::kRecovering) << job(id).message;
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 10);
  EXPECT_EQ(Seconds(id, TimeLabel::kHang), 60);
  Advance(absl::Seconds(2));
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 2);
  ReportExit(one, fence_, 0, {.signal = 9, .last_step = 5});
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 2);
}

TEST_F(LedgerTest, AGangThatIsAskedToLeaveDrains) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one);
  Advance(absl::Seconds(10));
  Say(one, "train", 5);
  EXPECT_OK(Cancel(id));
  Advance(absl::Seconds(4));
  Say(one, "save", 6);
  Advance(absl::Seconds(1));
  ReportExit(one, fence_, 0, {.stopped = true, .last_step = 6});
  EXPECT_EQ(state(id), JobState::kCancelled);
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 10);
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 5);
}

TEST_F(LedgerTest, ASuspendedJobHoldsNothingAndDoesNotWaitInTheQueue) {
  Agent one = ConnectNew("worker-1", 4);
  const uint64_t id = Train(one, {.min_ranks = 2, .slots_per_rank = 2});
  Advance(absl::Seconds(10));
  Say(one, "train", 5);
  EXPECT_OK(Tell(id, ControlJob::Verb::kSuspend));
  Advance(absl::Seconds(3));
  ReportExit(one, fence_, 0, {.stopped = true, .last_step = 5});
  Advance(absl::Seconds(1));
  ReportExit(one, fence_, 1, {.stopped = true, .last_step = 5});
  ASSERT_EQ(state(id), JobState::kSuspended);
  Pass(absl::Minutes(5), {&one});
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 4 * 10);
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 4 * 3 + 2 * 1);
  EXPECT_EQ(Now(id).times.total(), absl::Seconds(54));
  EXPECT_EQ(Now(id).queued, absl::ZeroDuration());
  EXPECT_OK(Tell(id, ControlJob::Verb::kResume));
  Advance(absl::Seconds(2));
  EXPECT_EQ(Seconds(id, TimeLabel::kStart), 4 * 2);
}

TEST_F(LedgerTest, APreemptedGangDrainsAndRecomputesOnlyWhatItDidNotSave) {
  Agent one = ConnectNew("worker-1", 2);
  const uint64_t id = Train(one, {.min_ranks = 2});
  Advance(absl::Seconds(10));
  Say(one, "train", 50);
  const uint64_t first = Submit({.min_ranks = 2, .priority = 1});
  ASSERT_EQ(job(id).reason, Reason::kPreemptedByJob) << job(id).message;
  Advance(absl::Seconds(2));
  EXPECT_OK(Apply(MakeCommit(one, fence_, 50)).status);
  const Fence victim = fence_;
  for (uint32_t rank : {0u, 1u}) ReportExit(one, victim, rank, {.stopped = true, .last_step = 50});
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 2 * 2);
  const Fence fence = StartRanks(one).fence;
  ASSERT_EQ(fence.job_id, first);
  Pass(absl::Seconds(20), {&one});
  Say(one, "train", 9);
  for (uint32_t rank : {0u, 1u}) ReportExit(one, fence, rank, {.succeeded = true});
  ASSERT_EQ(StartRanks(one).fence.job_id, id);
  Say(one, "train", 50);
  Advance(absl::Seconds(5));
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 2 * 15);
  EXPECT_EQ(Seconds(id, TimeLabel::kRecompute), 0);
  EXPECT_EQ(Now(id).queued, absl::Seconds(20));
}

TEST_F(LedgerTest, AGangThatGrowsCountsTheSlotsOfEachOfItsSizes) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one, {.max_ranks = 3, .progress_timeout = absl::Hours(1)});
  Agent two = ConnectNew("worker-2", 2);
  Pass(absl::Minutes(10), {&one, &two});
  EXPECT_OK(Apply(MakeCommit(one, fence_, 50)).status);
  Say(one, "train", 50);
  ASSERT_EQ(job(id).reason, Reason::kResized) << job(id).message;
  const double productive = Seconds(id, TimeLabel::kProductive);
  Advance(absl::Seconds(2));
  ReportExit(one, fence_, 0, {.stopped = true, .last_step = 50});
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 2);
  ASSERT_EQ(job(id).current->ranks.size(), 3u);
  StartRanks(one);
  StartRanks(two);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Now(id).times.total(), absl::Seconds(productive + 2 + 3 * 1));
}

TEST_F(LedgerTest, ALostMachineHoldsNothingAndItsGangHadHung) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  for (int i = 1; i <= 4; ++i) {
    Advance(absl::Seconds(3));
    Say(one, "train", 10);
    Say(two, "train", 10);
  }
  const double before = absl::ToDoubleSeconds(Now(id).times.total());
  while (worker("worker-2").presence() != Presence::kLost) {
    Advance(absl::Seconds(1));
    Say(one, "train", 10);
  }
  EXPECT_GT(Seconds(id, TimeLabel::kHang), 2 * 9) << "nothing moved since step 10 was reached";
  EXPECT_GT(absl::ToDoubleSeconds(Now(id).times.total()), before);
  const double held = absl::ToDoubleSeconds(Now(id).times.total());
  Advance(absl::Seconds(10));
  EXPECT_EQ(absl::ToDoubleSeconds(Now(id).times.total()), held + 10) << "only worker-1 counts";
  EXPECT_EQ(Seconds(id, TimeLabel::kDrain), 10);
  ReportExit(one, fence, 0, {.signal = 9});
  EXPECT_EQ(job(id).current->last_step, 10) << "although no rank said so at its end";
}

TEST_F(LedgerTest, ItOutlivesTheControllerAndCountsTheTimeBetween) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one);
  Advance(absl::Seconds(12));
  Say(one, "train", 50);  // stored: more than 10 s after the last time
  Advance(absl::Seconds(3));
  Say(one, "train", 60);  // not stored
  engine_.reset();
  clock_.Advance(absl::Seconds(30));
  Open();
  EXPECT_EQ(job(id).progress.step, 50);
  EXPECT_EQ(job(id).ledger.step, 50);
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 45);
  Connect(one, 1);
  EXPECT_EQ(job(id).ledger.step, 60);
  Advance(absl::Seconds(1));
  EXPECT_EQ(Seconds(id, TimeLabel::kProductive), 46);
}

TEST_F(LedgerTest, AWallClockThatJumpsBackTakesNothing) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one);
  Advance(absl::Seconds(12));
  Say(one, "train", 50);
  clock_.JumpWall(-absl::Hours(5));
  Advance(absl::Seconds(1));
  EXPECT_EQ(Now(id).times.total(), absl::Seconds(13));
  Restart();
  EXPECT_EQ(Now(id).times.total(), absl::Seconds(12)) << "what was stored";
  Connect(one, 1);
  Advance(absl::Seconds(2));
  EXPECT_EQ(Now(id).times.total(), absl::Seconds(14));
  clock_.JumpWall(absl::Hours(6));
  Restart();
  EXPECT_GT(Now(id).times.total(), absl::Minutes(50)) << "the wall clock is all there is to go by";
}

TEST_F(LedgerTest, CountersNeverGoBack) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one, {.progress_timeout = absl::Seconds(20)});
  absl::Duration last;
  for (int i = 0; i < 30; ++i) {
    Advance(absl::Seconds(3));
    Say(one, "train", std::min(i, 12));
    if (i == 9) {
      Restart();
      Connect(one, snapshot()->term - 1);
    }
    EXPECT_GE(job(id).ledger.settled[TimeLabel::kProductive], last) << i;
    last = job(id).ledger.settled[TimeLabel::kProductive];
  }
  EXPECT_GT(last, absl::Seconds(30));
  EXPECT_GT(Seconds(id, TimeLabel::kHang), 15);
}

TEST_F(LedgerTest, AnAttemptKnowsItsLastStepAfterAHardKillOfTheController) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Train(one);
  Advance(absl::Seconds(11));
  Say(one, "train", 80);
  Restart();
  // The agent went with the controller: the next one comes, nobody reports the old rank's end.
  Agent again = MakeReborn(one);
  Connect(again);
  EXPECT_EQ(job(id).current->last_step, 80);
}

}  // namespace
}  // namespace muster::controller
