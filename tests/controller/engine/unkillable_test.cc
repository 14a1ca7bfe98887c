// A rank that SIGKILL does not end: its gang goes on without it, and its slots wait for its death.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::ModelFaults;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UnkillableTest : public ::muster::testing::ControllerFixture {
 protected:
  // What the agent says of the rank, and that this worker should be drained: in one message.
  EventResult SayUnkillable(Agent& agent, const Fence& fence, uint32_t rank) {
    RankReport report = MakeReport(agent, fence, rank, RankReport::Kind::kUnkillable);
    report.failure_class = FailureClass::kWorkerLost;
    report.message = "process 7 did not die within 1m of SIGKILL";
    EventResult said;
    std::vector<Engine::Posted> posts;
    posts.push_back({.event = report, .done = [&said](const EventResult& r) { said = r; }});
    posts.push_back({.event = WorkerNotice{.worker = agent.name,
                                           .incarnation = agent.incarnation,
                                           .event_seq = ++agent.event_seq,
                                           .message = report.message},
                     .done = [](const EventResult& r) { EXPECT_OK(r.status); }});
    engine_->PostAll(std::move(posts));
    engine_->RunUntilIdle();
    return said;
  }
  // The loop finds that the job's only rank, which is on that worker, has stood still.
  void FindHung(Agent& agent, uint64_t id) {
    EXPECT_OK(Beat(agent).status);
    Apply(Findings{{RankHung{.job_id = id,
                             .attempt = 1,
                             .rank = 0,
                             .silent_for = absl::Minutes(10),
                             .progress_at = clock_.SinceBoot()}}});
  }
  // The job's only rank is on this one.
  Agent& HolderOf(uint64_t id) {
    return job(id).current->ranks[0].worker == one_.name ? one_ : two_;
  }
  Agent& Other(const Agent& agent) { return &agent == &one_ ? two_ : one_; }

  void SetUp() override {
    ControllerFixture::SetUp();
    one_ = ConnectNew("worker-1", 1);
    two_ = ConnectNew("worker-2", 1);
  }

  Agent one_;
  Agent two_;
};

TEST_F(UnkillableTest, AJobGoesOnElsewhereAtOnceAndTheSlotWaitsForTheProcess) {
  const uint64_t id = Submit();
  Agent& bad = HolderOf(id);
  Agent& good = Other(bad);
  const Fence fence = StartRanks(bad).fence;
  FindHung(bad, id);
  Take<StopAssignment>(bad);
  ASSERT_EQ(state(id), JobState::kRecovering);
  EXPECT_OK(SayUnkillable(bad, fence, 0).status);
  EXPECT_EQ(job(id).failure_class, FailureClass::kHang) << "the cause stands";
  Advance(absl::Seconds(2));
  EXPECT_EQ(state(id), JobState::kStarting);
  EXPECT_EQ(job(id).attempt, 2u);
  EXPECT_EQ(job(id).current->ranks[0].worker, good.name);
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(worker(bad.name).pulse.holders.size(), 1u);
    EXPECT_EQ(WorkerStateName(worker(bad.name)), "draining");
    EXPECT_EQ(job(id).past.at(0)->ranks[0].state, RankState::kUnkillable);
    EXPECT_EQ(RankStateName(RankState::kUnkillable), "unkillable");
    // It is told to die no more: that would be an order with every heartbeat.
    for (int i = 0; i < 3; ++i) EXPECT_OK(Beat(bad).status);
    EXPECT_FALSE(WasSent<StopAssignment>(bad));
    EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
    Restart();
    EXPECT_OK(Connect(bad).status);
    EXPECT_OK(Connect(good).status);
  }
  const EventResult exit = ReportExit(bad, fence, 0, {.signal = 9});
  EXPECT_TRUE(exit.fenced);
  EXPECT_TRUE(worker(bad.name).pulse.holders.empty());
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(UnkillableTest, ACancelEnds) {
  const uint64_t id = Submit();
  Agent& bad = HolderOf(id);
  const Fence fence = StartRanks(bad).fence;
  EXPECT_OK(Cancel(id));
  Take<StopAssignment>(bad);
  EXPECT_EQ(state(id), JobState::kStopping);
  EXPECT_OK(SayUnkillable(bad, fence, 0).status);
  EXPECT_EQ(state(id), JobState::kCancelled);
  EXPECT_EQ(worker(bad.name).pulse.holders.size(), 1u);
}

TEST_F(UnkillableTest, AGangWaitsForItsOtherRanksOnly) {
  const uint64_t id = Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one_).fence;
  StartRanks(two_);
  Agent& bad = job(id).current->ranks[0].worker == one_.name ? one_ : two_;
  Agent& good = Other(bad);
  // It was killed for what it did by itself, before anybody asked.
  EXPECT_OK(SayUnkillable(bad, fence, 0).status);
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_THAT(job(id).current->cause, HasSubstr("did not die"));
  ReportExit(good, fence, 1, {.stopped = true});
  EXPECT_EQ(job(id).failure_class, FailureClass::kWorkerLost);
  EXPECT_EQ(state(id), JobState::kPending);
}

TEST_F(UnkillableTest, WhatItStillPublishesDoesNotCount) {
  const uint64_t id = Submit();
  Agent& bad = HolderOf(id);
  const Fence fence = StartRanks(bad).fence;
  FindHung(bad, id);
  EXPECT_OK(SayUnkillable(bad, fence, 0).status);
  EXPECT_TRUE(Apply(MakeCommit(bad, fence, 5)).fenced);
  EXPECT_TRUE(job(id).checkpoints.empty());
}

TEST_F(UnkillableTest, TheNextAgentOfItsDataFolderIsProofOfDeath) {
  const uint64_t id = Submit();
  Agent& bad = HolderOf(id);
  const Fence fence = StartRanks(bad).fence;
  EXPECT_OK(Cancel(id));
  EXPECT_OK(SayUnkillable(bad, fence, 0).status);
  Agent reborn = MakeReborn(bad);
  EXPECT_OK(Connect(reborn).status);
  EXPECT_TRUE(worker(bad.name).pulse.holders.empty());
  EXPECT_EQ(WorkerStateName(worker(bad.name)), "ready");
}

TEST_F(UnkillableTest, ARankOfALostWorkerMayTurnOutToBeUnkillable) {
  const uint64_t id = Submit();
  Agent& bad = HolderOf(id);
  const Fence fence = StartRanks(bad).fence;
  Advance(absl::Seconds(30));
  ASSERT_EQ(worker(bad.name).presence(), Presence::kLost);
  const EventResult hello = Connect(bad);
  ASSERT_EQ(hello.stale.size(), 1u);
  EXPECT_TRUE(SayUnkillable(bad, fence, 0).fenced);
  bad.link->sent.clear();
  for (int i = 0; i < 3; ++i) EXPECT_OK(Beat(bad).status);
  EXPECT_FALSE(WasSent<StopAssignment>(bad));
  EXPECT_EQ(worker(bad.name).pulse.holders.size(), 1u);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

}  // namespace
}  // namespace muster::controller
