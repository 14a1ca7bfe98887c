// Gangs that are told to make way: proposals are posted by hand here; who is told is policy's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::testing::HasSubstr;

class PreemptionRulesTest : public ::muster::testing::ControllerFixture {
 protected:
  void SetUp() override {
    ControllerFixture::SetUp();
    one_ = ConnectNew("worker-1", 1);
    victim_ = Submit({.max_ranks = 4, .max_restarts = 0});
    fence_ = StartRanks(one_).fence;
    // Too large ever to be placed here: it only waits.
    head_ = Submit({.min_ranks = 9, .wait_for_capacity = true, .priority = 5});
  }
  void Propose(StopGang stop) {
    stop.job_id = victim_;
    if (stop.attempt == 0) stop.attempt = 1;
    if (stop.reason.empty()) stop.reason = "makes way for job 2; 7 slot-seconds are unsaved";
    EXPECT_OK(Apply(ApplyPlan{.plan = {.place = {}, .stop = {stop}, .waiting = {}}}).status);
  }

  // The attempt that made way.
  Attempt First() const {
    const Job victim = job(victim_);
    return victim.past.empty() ? *victim.current : *victim.past.front();
  }

  Agent one_;
  uint64_t victim_ = 0;
  uint64_t head_ = 0;
  Fence fence_;
};

TEST_F(PreemptionRulesTest, TheVictimSavesLeavesAndIsChargedNothing) {
  Propose({.why = StopGang::Why::kPreempt, .for_job = head_});
  EXPECT_EQ(state(victim_), JobState::kRecovering);
  EXPECT_EQ(job(victim_).reason, Reason::kPreemptedByJob);
  EXPECT_THAT(job(victim_).events.back()->message, HasSubstr("7 slot-seconds are unsaved"));
  EXPECT_EQ(Take<StopAssignment>(one_).mode, StopMode::kSave);
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 40)).status);
  // What it does once it was asked to leave is not its fault.
  ReportExit(one_, fence_, 0,
             {.failure_class = FailureClass::kApplication, .exit_code = 143, .message = "SIGTERM"});
  EXPECT_EQ(First().failure_class, FailureClass::kPreempted);
  EXPECT_EQ(job(victim_).restarts_in_row, 0u);
  EXPECT_EQ(First().preempted_by, head_);
  EXPECT_FALSE(IsTerminal(state(victim_)));
  Restart();
  EXPECT_EQ(First().preempted_by, head_);
}

TEST_F(PreemptionRulesTest, WhatItCostIsKeptAndCounted) {
  Advance(absl::Seconds(10));
  Propose({.why = StopGang::Why::kPreempt, .for_job = head_});
  EXPECT_EQ(First().stake_slot_seconds, 10);
  EXPECT_EQ(First().lost_slot_seconds, -1) << "nobody knows yet";
  Advance(absl::Seconds(2));
  EXPECT_OK(Apply(MakeCommit(one_, fence_, 40)).status);
  Advance(absl::Seconds(1));
  ReportExit(one_, fence_, 0, {.stopped = true});
  EXPECT_EQ(First().lost_slot_seconds, 1);
  EXPECT_EQ(snapshot()->counters.stake_slot_seconds, 10u);
  EXPECT_EQ(snapshot()->counters.lost_slot_seconds, 1u);
  bool said = false;
  for (const auto& event : job(victim_).events) {
    said = said || event->message.find("1 slot-seconds of work were lost") != std::string::npos;
  }
  EXPECT_TRUE(said);
  Restart();
  EXPECT_EQ(First().stake_slot_seconds, 10);
  EXPECT_EQ(First().lost_slot_seconds, 1);
}

TEST_F(PreemptionRulesTest, AJobThatFinishesFirstHasSucceeded) {
  Propose({.why = StopGang::Why::kPreempt, .for_job = head_});
  ReportExit(one_, fence_, 0, {.succeeded = true});
  EXPECT_EQ(state(victim_), JobState::kSucceeded);
  EXPECT_EQ(job(victim_).current->failure_class, FailureClass::kNone);
}

TEST_F(PreemptionRulesTest, AResizeIsARestartOfItsOwn) {
  Propose({.why = StopGang::Why::kGrow, .reason = "goes on with 4 ranks instead of 1"});
  EXPECT_EQ(job(victim_).reason, Reason::kResized);
  ReportExit(one_, fence_, 0, {.stopped = true});
  EXPECT_EQ(state(victim_), JobState::kStarting);
  EXPECT_EQ(job(victim_).attempt, 2u);
}

TEST_F(PreemptionRulesTest, WhatTheWorldHasOvertakenDoesNothing) {
  const uint64_t before = snapshot()->last_event;
  Propose({.attempt = 7, .why = StopGang::Why::kPreempt, .for_job = head_});
  Propose({.why = StopGang::Why::kPreempt, .for_job = 99});
  Propose({.why = StopGang::Why::kPreempt, .for_job = victim_});
  Propose({.why = StopGang::Why::kShrink, .for_job = head_});  // has its fewest ranks
  const uint64_t equal = Submit({.min_ranks = 9, .wait_for_capacity = true});
  Propose({.why = StopGang::Why::kPreempt, .for_job = equal});
  EXPECT_OK(Cancel(head_));
  Propose({.why = StopGang::Why::kPreempt, .for_job = head_});
  EXPECT_EQ(state(victim_), JobState::kRunning);
  EXPECT_EQ(snapshot()->last_event, before + 2) << "the submit and the cancel";
  EXPECT_FALSE(WasSent<StopAssignment>(one_));
}

}  // namespace
}  // namespace muster::controller
