// Failures that people of other schedulers reported, replayed: each test says in its own words what
// went wrong there, and shows that it does not here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::ModelFaults;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KnownFailuresTest : public ::muster::testing::ControllerFixture {
 protected:
  void TearDown() override { EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty()); }

  // The ranks that were told to save and leave do so.
  void LeaveAsAsked(Agent& agent) {
    if (!WasSent<StopAssignment>(agent)) return;
    const Fence fence = Take<StopAssignment>(agent).fence;
    const std::vector<RankStatus> alive = agent.alive;
    for (const RankStatus& status : alive) {
      if (status.fence.job_id == fence.job_id && status.fence.attempt == fence.attempt) {
        ReportExit(agent, status.fence, status.rank, {.stopped = true});
      }
    }
  }
  size_t SlotsHeldBy(uint64_t id) const {
    size_t slots = 0;
    snapshot()->workers.ForEach([&](const Worker& worker) {
      for (const auto& [slot, holder] : worker.pulse.holders) slots += holder.job_id == id;
    });
    return slots;
  }
  int Preemptions(uint64_t id) const {
    int count = 0;
    for (const auto& event : job(id).events) count += event->reason == Reason::kPreemptedByJob;
    return count;
  }
};

// volcano-sh/volcano#5805: a node of a gang is taken away and comes back; a younger pod of the same
// priority gets the slot first, because the order favours who holds less, and the gang stays one
// member short for ever while its other members hold their slots idle.
TEST_F(KnownFailuresTest, Volcano5805AGangThatLosesAMemberDoesNotStayBelowItsMinimum) {
  Agent a = ConnectNew("a", 1);
  Agent b = ConnectNew("b", 1);
  const uint64_t gang = Submit({.min_ranks = 2});
  StartRanks(a);
  StartRanks(b);
  ASSERT_EQ(state(gang), JobState::kRunning);
  // Node b's agent starts anew: its rank is gone, and the rest of the gang is stopped.
  b = MakeReborn(b);
  const uint64_t younger = Submit();
  EXPECT_OK(Connect(b).status);
  EXPECT_EQ(state(gang), JobState::kRecovering);
  EXPECT_EQ(state(younger), JobState::kPending) << "b's slot is kept for the gang";
  ReportExit(a, Take<StopAssignment>(a).fence, 0, {.signal = 9});
  Advance(absl::Seconds(2));
  EXPECT_EQ(state(gang), JobState::kStarting);
  EXPECT_EQ(SlotsHeldBy(gang), 2u) << "all of it or nothing";
  EXPECT_EQ(state(younger), JobState::kPending);
}

// volcano-sh/volcano#3291: one node is free, the other runs a job of low priority; a gang of high
// priority that needs both waits for ever, because the search for victims does not count the node
// without any, and the search for free nodes does not count the victims.
TEST_F(KnownFailuresTest, Volcano3291PreemptionCountsWhatIsFreeAndWhatComesFree) {
  Agent a = ConnectNew("a", 1);
  const uint64_t low = Submit({.priority = -1000});
  StartRanks(a);
  Agent b = ConnectNew("b", 1);
  const uint64_t high = Submit({.min_ranks = 2, .priority = 1000});
  EXPECT_EQ(state(low), JobState::kRecovering);
  EXPECT_THAT(job(low).message, HasSubstr(absl::StrCat("makes way for job ", high)));
  LeaveAsAsked(a);
  EXPECT_EQ(state(high), JobState::kStarting);
  EXPECT_EQ(SlotsHeldBy(high), 2u);
  EXPECT_EQ(state(low), JobState::kPending);
}

// kubernetes-sigs/kueue#6947: a workload that cannot fit stands first in the queue; for its sake a
// small borrower is preempted, then admitted again since the large one does not fit even so, and so
// on without end, while a workload that would fit waits behind.
TEST_F(KnownFailuresTest, Kueue6947AJobThatCannotFitPreemptsNobodyAndHoldsUpNobody) {
  Agent a = ConnectNew("a", 3);
  const uint64_t borrower = Submit({.priority = -1000});
  StartRanks(a);
  const uint64_t too_large = Submit({.min_ranks = 4, .wait_for_capacity = true, .priority = 1000});
  Advance(absl::Seconds(8));
  EXPECT_EQ(state(borrower), JobState::kRunning);
  const uint64_t fits = Submit({.min_ranks = 3, .priority = 1000});
  EXPECT_EQ(state(borrower), JobState::kRecovering);
  LeaveAsAsked(a);
  EXPECT_EQ(state(fits), JobState::kStarting);
  StartRanks(a);
  for (int cycle = 0; cycle < 20; ++cycle) {
    Beat(a);
    Advance(absl::Seconds(3));
  }
  EXPECT_EQ(state(fits), JobState::kRunning);
  EXPECT_EQ(Preemptions(borrower), 1);
  EXPECT_EQ(job(borrower).attempt, 1u) << "it is not started into slots that are another's";
  EXPECT_EQ(state(too_large), JobState::kPending);
}

// determined-ai/determined#3340: of two equal experiments the one submitted first was preempted
// instead of the last; and when the urgent one had gone, a third that had never run got the slot
// before the one that had been preempted, since the order went by when each had asked last.
TEST_F(KnownFailuresTest, Determined3340AmongEqualsTheLastSubmittedMakesWayAndComesBackFirst) {
  Agent a = ConnectNew("a", 1);
  Agent b = ConnectNew("b", 1);
  const uint64_t first = Submit();
  const uint64_t second = Submit();
  const uint64_t third = Submit();
  StartRanks(a);
  StartRanks(b);
  Advance(absl::Seconds(2));
  const uint64_t urgent = Submit({.priority = 1});
  EXPECT_EQ(state(first), JobState::kRunning);
  EXPECT_EQ(state(second), JobState::kRecovering);
  Agent& freed = WasSent<StopAssignment>(a) ? a : b;
  LeaveAsAsked(freed);
  ASSERT_EQ(state(urgent), JobState::kStarting);
  const Fence fence = StartRanks(freed).fence;
  EXPECT_OK(Cancel(urgent));
  ReportExit(freed, fence, 0, {.stopped = true});
  EXPECT_EQ(state(second), JobState::kStarting);
  EXPECT_EQ(state(third), JobState::kPending);
}

// skypilot-org/skypilot#10013: launches that wait for a place hold the few slots for launches, so
// that jobs behind them, urgent ones too, never get to ask.
TEST_F(KnownFailuresTest, SkyPilot10013JobsThatWaitHoldNothing) {
  Agent a = ConnectNew("a", 1);
  for (int i = 0; i < 600; ++i) {
    EXPECT_OK(TrySubmit({.pool = "sold-out", .wait_for_capacity = true, .priority = 1000}).status);
  }
  const uint64_t runs = Submit();
  EXPECT_EQ(state(runs), JobState::kStarting);
  // A gang that was placed and does not get going is in nobody's way either.
  const uint64_t urgent = Submit({.priority = 1});
  EXPECT_EQ(state(runs), JobState::kRecovering);
  Take<StartAssignment>(a, "it was told to stop meanwhile");
  EXPECT_EQ(state(urgent), JobState::kStarting);
}

// skypilot-org/skypilot#10162: a single health probe that timed out on a busy machine had a healthy
// job torn down and started again.
TEST_F(KnownFailuresTest, SkyPilot10162AMissedProbeDoesNotRestartAHealthyJob) {
  Agent a = ConnectNew("a", 1);
  const uint64_t id = Submit();
  StartRanks(a);
  for (int probe = 0; probe < 10; ++probe) {
    Advance(Options().suspect_after + absl::Seconds(1));
    EXPECT_EQ(WorkerStateName(worker("a")), "suspect");
    EXPECT_OK(Beat(a).status);
    EXPECT_EQ(WorkerStateName(worker("a")), "ready");
  }
  // A stream that breaks and comes back is no news either.
  Advance(absl::Seconds(5));
  EXPECT_TRUE(Connect(a, snapshot()->term).stale.empty());
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_EQ(job(id).attempt, 1u);
  EXPECT_TRUE(worker("a").failures.empty());
}

// A review of Muster itself: a command that offered step 1 and then killed itself was started again
// for ever, 22 times in ten seconds, since each commit, of the same step too, refilled the budget
// and brought the wait back to its first value.
TEST_F(KnownFailuresTest, ACrashLoopThatSavesTheSameStepEachTimeComesToAnEnd) {
  Agent a = ConnectNew("a", 1);
  const uint64_t id = Submit({.max_restarts = 2});
  absl::Duration waited;
  for (int attempt = 0; attempt < 20 && !IsTerminal(state(id)); ++attempt) {
    const Fence fence = StartRanks(a).fence;
    EXPECT_OK(Apply(MakeCommit(a, fence, 1)).status);
    ReportExit(a, fence, 0, {.signal = 9, .last_step = 1});
    while (state(id) == JobState::kPending) {
      Advance(absl::Milliseconds(100));
      waited += absl::Milliseconds(100);
      Beat(a);
    }
  }
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_EQ(job(id).reason, Reason::kRestartBudgetSpent);
  EXPECT_EQ(job(id).attempt, 3u);
  EXPECT_GT(waited, absl::Seconds(2)) << "the second wait is twice the first";
}

}  // namespace
}  // namespace muster::controller
