// The agent has no file descriptor left for a while.
#include <signal.h>

#include <string>

#include "httplib.h"
#include "tests/support/no_descriptors.h"
#include "tests/worker/agent/agent_fixture.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;

TEST_F(AgentTest, WithoutDescriptorsItBeatsOnAndFreesNoSlotOfWhatItCannotLookFor) {
  cgroups_ = false;
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"spawn", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("child ")));
  const std::string log = controller_.heard().Log();
  const auto child = static_cast<uint32_t>(std::stoul(log.substr(log.find("child ") + 6)));
  const uint32_t leader = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  const auto beats_on = [this] {
    const size_t before = controller_.heard().heartbeats;
    return controller_.Await(
        [before](const Heard& heard) { return heard.heartbeats > before + 20; });
  };
  {
    const ::muster::testing::NoDescriptors none;
    EXPECT_EQ(::kill(static_cast<pid_t>(leader), SIGKILL), 0);
    EXPECT_TRUE(controller_.Send(OtherStart(2, 2, 1, {"result succeeded"})));
    EXPECT_TRUE(controller_.Await(ExitedIn(2)));
    EXPECT_TRUE(beats_on());
    EXPECT_FALSE(Exited(controller_.heard())) << "its child may live";
  }
  const v1::RankEvent refused = *controller_.heard().FindEvent(v1::RankEvent::EXITED, 0, 2);
  EXPECT_EQ(refused.failure_class(), v1::START_FAILED);
  EXPECT_THAT(refused.message(), HasSubstr("Too many open files"));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_FALSE(Lives(child));
  httplib::Client client("http://" + agent_.load()->metrics_address());
  EXPECT_TRUE(client.Get("/metrics"));
  ASSERT_TRUE(controller_.Send(OtherStart(3, 3, 1, {"result succeeded"})));
  ASSERT_TRUE(controller_.Await(ExitedIn(3)));
  EXPECT_TRUE(controller_.heard().FindEvent(v1::RankEvent::EXITED, 0, 3)->succeeded());
  EXPECT_EQ(controller_.heard().hellos.size(), 1u);
}

}  // namespace
}  // namespace muster::worker
