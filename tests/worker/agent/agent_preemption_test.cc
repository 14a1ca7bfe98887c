// The whole agent on a machine that its cloud takes away: the controller hears of it with the time
// that is left, the ranks save and leave, and the agent stays until the machine goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/worker/agent/agent_fixture.h"
#include "tests/worker/agent/preemption/fake_cloud.h"

namespace muster::worker {
namespace {

using ::muster::testing::FakeCloud;
using ::testing::HasSubstr;

class AgentPreemptionTest : public AgentTest {
 protected:
  ~AgentPreemptionTest() override { EndAgent(); }

  void StartAgentOf(const std::string& source) {
    preemption_source_ = source;
    preemption_url_ = cloud_.Url("w1");
    StartAgent();
  }
  bool AwaitNotices(size_t count) {
    return controller_.Await([count](const Heard& heard) { return heard.notices.size() >= count; });
  }

  FakeCloud cloud_;
};

TEST_F(AgentPreemptionTest, ANoticeLetsRanksSaveAndTheAgentStaysWithoutNewOnes) {
  StartAgentOf(kAwsSource);
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"metrics 5", "await_stop", "checkpoint 5", "print bye", "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  cloud_.Interrupt("w1", absl::Seconds(100));
  ASSERT_TRUE(controller_.Await(Exited));
  const Heard heard = controller_.heard();
  ASSERT_EQ(heard.notices.size(), 1u);
  EXPECT_THAT(heard.notices[0].message(), HasSubstr("AWS will terminate"));
  // What the cloud leaves, without what is kept back for ranks that do not save.
  EXPECT_GT(heard.notices[0].grace_ms(), 85'000);
  EXPECT_LE(heard.notices[0].grace_ms(), 95'000);
  EXPECT_TRUE(heard.FindEvent(v1::RankEvent::EXITED)->stopped());
  EXPECT_TRUE(controller_.Await(Logged("committed 5 error=\nbye\n"))) << "logs come on their own";

  ASSERT_TRUE(controller_.Send(StartMessage(2, {"hang"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(Acked(2)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(2), HasSubstr("goes away"));
}

TEST_F(AgentPreemptionTest, AMachineThatStaysAfterAllTakesWorkAgain) {
  StartAgentOf(kAwsSource);
  cloud_.Interrupt("w1", absl::Seconds(100));
  ASSERT_TRUE(AwaitNotices(1));
  cloud_.Withdraw("w1");
  ASSERT_TRUE(AwaitNotices(2));
  EXPECT_TRUE(controller_.heard().notices[1].withdrawn());
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
}

TEST_F(AgentPreemptionTest, AnAgentThatStartsUnderNoticeSaysSoInItsHello) {
  cloud_.SetPreempted("w1", true);
  StartAgentOf(kGcpSource);
  EXPECT_TRUE(controller_.heard().hellos.front().takes_no_work());
  ASSERT_TRUE(AwaitNotices(1));
  EXPECT_FALSE(controller_.heard().notices[0].withdrawn());
}

TEST_F(AgentPreemptionTest, AServiceThatHangsHoldsNobodyUp) {
  cloud_.SetTrouble([](const auto&, auto& answer) {
    answer.Stall();
    return true;
  });
  StartAgentOf(kAzureSource);
  EXPECT_FALSE(controller_.heard().hellos.front().takes_no_work());
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
}

TEST_F(AgentPreemptionTest, WhoDoesNotSaveIsEndedBeforeTheMachineGoes) {
  StartAgentOf(kAwsSource);
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"ignore_term", "print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  cloud_.Interrupt("w1", absl::Seconds(6));
  const absl::Duration began = clock_.SinceBoot();
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_LT(clock_.SinceBoot() - began, absl::Seconds(9));
}

TEST_F(AgentPreemptionTest, WithoutAControllerTheRanksAreAskedToSaveAllTheSame) {
  StartAgentOf(kAwsSource);
  ASSERT_TRUE(
      controller_.Send(StartMessage(1, {"print up", "await_stop", "print bye", "result stopped"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  controller_.Stop();
  cloud_.Interrupt("w1", absl::Seconds(100));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !Lives(pid); }));
  controller_.Start();
  ASSERT_TRUE(AwaitNotices(1));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(controller_.heard().hellos.back().takes_no_work());
  EXPECT_TRUE(controller_.heard().FindEvent(v1::RankEvent::EXITED)->stopped());
}

TEST_F(AgentPreemptionTest, AzureMayTakeTheMachineOnceItsRanksHaveLeft) {
  StartAgentOf(kAzureSource);
  const std::string go = dir_ / "go";
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"await_stop", "await_file " + go, "checkpoint 5", "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  cloud_.Schedule("other", "Preempt", {"w2"}, absl::Seconds(25));
  cloud_.Schedule("mine", "Preempt", {"w1"}, absl::Seconds(25));
  ASSERT_TRUE(AwaitNotices(1));
  EXPECT_TRUE(cloud_.approved().empty()) << "the rank still saves";
  std::ofstream(go) << "go";
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !cloud_.approved().empty(); }));
  EXPECT_THAT(cloud_.approved(), ::testing::ElementsAre("mine"));
  EXPECT_NE(controller_.heard().FindEvent(v1::RankEvent::EXITED), nullptr);
}

TEST_F(AgentPreemptionTest, AStopDuringANoticeHasNoMoreTimeThanTheCloudLeaves) {
  stop_grace_ = absl::Minutes(10);
  StartAgentOf(kAwsSource);
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"ignore_term", "print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  cloud_.Interrupt("w1", absl::Seconds(8));
  ASSERT_TRUE(AwaitNotices(1));
  const absl::Duration began = clock_.SinceBoot();
  PostStop();
  thread_.join();
  EXPECT_OK(result_);
  EXPECT_LT(clock_.SinceBoot() - began, absl::Seconds(15));
}

}  // namespace
}  // namespace muster::worker
