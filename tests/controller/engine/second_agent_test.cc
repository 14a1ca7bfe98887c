// Two agents of one name, two generations of one gang: only the newer one counts, also for the next
// controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;

class SecondAgentTest : public ::muster::testing::ControllerFixture {};

TEST_F(SecondAgentTest, ASecondAgentOfTheSameNameFencesTheFirstForGood) {
  Agent first = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(first).fence;
  Agent second = MakeAgent("worker-1", 1);
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
    EXPECT_TRUE(refused(WorkerNotice{first.name, first.incarnation, "bye", {}}));
    EXPECT_EQ(Connect(first).status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(::muster::testing::DescribeModel(*snapshot()), before);
    Restart();  // and the next controller knows it too
    EXPECT_OK(Connect(second).status);
  }
  EXPECT_TRUE(job(id).checkpoints.empty());
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
  ASSERT_EQ(snapshot()->outbox->size(), 1u);  // committed, and the agent dies before it takes it
  Agent second = MakeAgent("worker-1", 1);
  EXPECT_OK(Connect(second).status);
  EXPECT_FALSE(WasSent<StartAssignment>(second)) << "it was for another life";
  Advance(absl::Seconds(2));
  EXPECT_EQ(Take<StartAssignment>(second).fence.attempt, 2u);
  EXPECT_EQ(job(id).attempt, 2u);
}

}  // namespace
}  // namespace muster::controller
