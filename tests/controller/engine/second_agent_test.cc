// Two agents of one name, two generations of one gang: only one counts, also for the next
// controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class SecondAgentTest : public ::muster::testing::ControllerFixture {
 protected:
  // `grace` zero: it is not fit for work, and stays.
  EventResult GiveNotice(Agent& agent, absl::Duration grace) {
    return Apply(WorkerNotice{.worker = agent.name,
                              .incarnation = agent.incarnation,
                              .event_seq = ++agent.event_seq,
                              .grace = grace});
  }
};

// As clones of one image do: they would end each other's jobs by turns.
TEST_F(SecondAgentTest, ASecondAgentOfANameWaitsWhileTheFirstOneMayLive) {
  Agent first = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(first).fence;
  Agent other = MakeAgent("worker-1", 1);
  // Its data folder is a copy, taken before the first agent began.
  Agent clone = MakeReborn(first);
  clone.predecessors = {"incarnation-0"};
  const std::string before = ::muster::testing::DescribeModel(*snapshot());
  for (int life = 0; life < 2; ++life) {
    for (Agent* second : {&other, &clone}) {
      const absl::Status refused = Connect(*second).status;
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAborted, HasSubstr("its own --name")));
      EXPECT_FALSE(first.link->closed.code() == absl::StatusCode::kAborted);
    }
    EXPECT_EQ(::muster::testing::DescribeModel(*snapshot()), before);
    EXPECT_EQ(state(id), JobState::kRunning);
    Restart();  // the next controller knows the first one too, and it need not be quick
  }
  EXPECT_OK(Connect(first).status);
  EXPECT_OK(Apply(MakeCommit(first, fence, 9)).status);
  // A connection that breaks is no death.
  engine_->Disconnect(first.name, first.incarnation, first.link.get());
  EXPECT_THAT(Connect(other).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("lease")));
  EXPECT_EQ(state(id), JobState::kRunning);
}

TEST_F(SecondAgentTest, ASecondAgentTakesTheNameWhenTheFirstOnesLeaseIsOver) {
  Agent first = ConnectNew("worker-1", 1);
  Agent other = ConnectNew("worker-2", 1);
  const uint64_t id = Submit();
  Agent& holder = job(id).current->ranks[0].worker == "worker-1" ? first : other;
  StartRanks(holder);
  Agent second = MakeAgent(holder.name, 1);
  EXPECT_THAT(Connect(second).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("lease")));
  Advance(absl::Seconds(30));
  EXPECT_EQ(worker(holder.name).presence(), Presence::kLost);
  EXPECT_OK(Connect(second).status);
  EXPECT_EQ(worker(holder.name).identity, second.identity);
  EXPECT_TRUE(worker(holder.name).pulse.holders.empty()) << "that was another machine's slot";
  EXPECT_THAT(Connect(holder).status, StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(SecondAgentTest, ANameIsFreeAtOnceWhenItsAgentLeftInGoodOrder) {
  Agent first = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(first).fence;
  EXPECT_OK(GiveNotice(first, absl::Seconds(20)).status);
  Agent second = MakeAgent("worker-1", 1);
  EXPECT_THAT(Connect(second).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("name")));
  ReportExit(first, fence, 0, {.stopped = true});
  EXPECT_THAT(Connect(second).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("name")));
  engine_->Disconnect(first.name, first.incarnation, first.link.get());
  EXPECT_OK(Connect(second).status);
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(SecondAgentTest, WhoIsUnfitAndAwayForAMomentKeepsItsName) {
  Agent first = ConnectNew("worker-1", 1);
  EXPECT_OK(GiveNotice(first, absl::ZeroDuration()).status);
  engine_->Disconnect(first.name, first.incarnation, first.link.get());
  Agent second = MakeAgent("worker-1", 1);
  EXPECT_THAT(Connect(second).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("name")));
  EXPECT_OK(Connect(first).status);
}

TEST_F(SecondAgentTest, WhoGaveNoticeToAFormerControllerMayStillBeThere) {
  Agent first = ConnectNew("worker-1", 1);
  EXPECT_OK(GiveNotice(first, absl::Minutes(10)).status);
  Restart();
  Agent second = MakeAgent("worker-1", 1);
  EXPECT_THAT(Connect(second).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("name")));
  EXPECT_OK(Connect(first).status);
  EXPECT_TRUE(worker("worker-1").draining);
}

TEST_F(SecondAgentTest, TheNextAgentOfTheSameDataFolderFencesTheFirstForGood) {
  Agent first = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(first).fence;
  Agent second = MakeReborn(first);
  EXPECT_OK(Connect(second).status);
  // Whatever the first one says is refused with what tells it to leave; nothing of it counts.
  const auto refused = [&](Event event) {
    return Apply(std::move(event)).status.code() == absl::StatusCode::kAlreadyExists;
  };
  for (int life = 0; life < 2; ++life) {
    const std::string before = ::muster::testing::DescribeModel(*snapshot());
    EXPECT_TRUE(refused(WorkerHeartbeat{first.name, first.incarnation, first.alive}));
    EXPECT_TRUE(refused(MakeReport(first, fence, 0, RankReport::Kind::kRunning)));
    EXPECT_TRUE(refused(MakeCommit(first, fence, 9)));
    EXPECT_TRUE(refused(AssignmentAcked{first.name, first.incarnation, 1, ""}));
    EXPECT_TRUE(refused(WorkerNotice{first.name, first.incarnation, 9, "bye", {}}));
    EXPECT_EQ(Connect(first).status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(::muster::testing::DescribeModel(*snapshot()), before);
    Restart();  // and the next controller knows it too
    EXPECT_OK(Connect(second).status);
  }
  EXPECT_TRUE(job(id).checkpoints.empty());
}

TEST_F(SecondAgentTest, AnAgentOfAnotherDataFolderShowsNobodyToBeDead) {
  Agent first = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  StartRanks(first);
  Agent other = MakeAgent("worker-1", 1);
  other.predecessors = {first.incarnation};
  EXPECT_THAT(Connect(other).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("name")));
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_OK(Connect(first).status);
}

TEST_F(SecondAgentTest, AReportOfAnotherGenerationIsRefused) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Fence other = StartRanks(one).fence;
  ++other.generation;
  EXPECT_TRUE(Apply(MakeCommit(one, other, 5)).fenced);
  EXPECT_TRUE(Apply(MakeReport(one, other, 0, RankReport::Kind::kExited)).fenced);
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_TRUE(job(id).checkpoints.empty());
}

TEST_F(SecondAgentTest, AnAssignmentThatWasNeverSentDiesWithItsAgent) {
  Agent first = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  ASSERT_EQ(snapshot()->outbox.size(), 1u);  // committed, and the agent dies before it takes it
  Agent second = MakeReborn(first);
  EXPECT_OK(Connect(second).status);
  EXPECT_FALSE(WasSent<StartAssignment>(second)) << "it was for another life";
  Advance(absl::Seconds(2));
  EXPECT_EQ(Take<StartAssignment>(second).fence.attempt, 2u);
  EXPECT_EQ(job(id).attempt, 2u);
}

}  // namespace
}  // namespace muster::controller
