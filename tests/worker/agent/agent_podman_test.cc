// The agent with the real podman, where that can run containers (tests/support/container_host.h):
// what a program finds inside, what its end is called, and that nothing of a container outlives its
// rank, whoever is killed and when.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/container_host.h"
#include "tests/worker/agent/agent_fixture.h"
#include "worker/agent/process/process_scan.h"

namespace muster::worker {
namespace {

using ::muster::testing::ContainerHost;
using ::muster::testing::kTestImage;
using ::muster::testing::kTestProgram;
using ::muster::testing::ProcessesMentioning;
using ::muster::testing::Subprocess;
using ::testing::HasSubstr;

v1::ControllerMessage ImageMessage(uint64_t seq, std::vector<std::string> words, uint32_t ranks = 1,
                                   uint32_t attempt = 1,
                                   const std::string& checkpoint_root = CheckpointRoot()) {
  words.insert(words.begin(), kTestProgram);
  v1::ControllerMessage message = CommandMessage(seq, words, ranks, attempt);
  const nlohmann::json spec = {{"command",
                                {{"argv", words},
                                 {"image", kTestImage},
                                 {"env", {{"SECRET", "a b\"c"}, {"LINES", "one\ntwo"}}}}},
                               {"restart", {{"controller_lost_timeout", "1h"}}},
                               {"per_rank", {{"memory", "64MiB"}}}};
  message.mutable_start_ranks()->set_spec_json(spec.dump());
  message.mutable_start_ranks()->set_checkpoint_root(checkpoint_root);
  return message;
}

class AgentPodmanTest : public AgentTest {
 protected:
  void SetUp() override {
    MUSTER_NEEDS_CONTAINERS();
    container_runtime_ = "podman";
  }
  // Of job 1, which no other agent of this machine gives such names.
  std::string Names() {
    if (agent_name_.empty()) return "";
    return ContainerHost::Get().Containers("^muster-1-.*-" + agent_name_);
  }
  // Reads this agent's part of the names from the one container that there is.
  void LearnName(const std::string& folder) {
    std::ifstream file(dir_ / ("data/ranks/" + folder + "/container"));
    std::getline(file, name_);
    ASSERT_FALSE(name_.empty());
    agent_name_ = name_.substr(name_.rfind('-') + 1);
  }
  void AwaitLog(const std::string& text, uint32_t rank = 0, uint32_t attempt = 1) {
    ASSERT_TRUE(controller_.Await([&](const Heard& heard) {
      return heard.Log(rank, attempt).find(text) != std::string::npos;
    })) << text;
  }
  v1::RankEvent AwaitExit(uint32_t attempt = 1, uint32_t rank = 0) {
    EXPECT_TRUE(controller_.Await([=](const Heard& heard) {
      return heard.FindEvent(v1::RankEvent::EXITED, rank, attempt) != nullptr;
    }));
    return *controller_.heard().FindEvent(v1::RankEvent::EXITED, rank, attempt);
  }

  std::string name_;
  std::string agent_name_;
};

TEST_F(AgentPodmanTest, RanksFindTheirEnvironmentSocketAndFoldersInside) {
  StartAgent();
  const std::string root = dir_ / "checkpoints/job-1";
  ASSERT_TRUE(controller_.Send(ImageMessage(
      1,
      {"cwd", "print:RANK", "print:WORLD_SIZE", "print:MASTER_ADDR", "print:SECRET", "print:LINES",
       "print:HOME", "print:MUSTER_RESUME", "write:MUSTER_CHECKPOINT_DIR", "report"},
      2, 1, root)));
  EXPECT_TRUE(AwaitExit(1, 0).succeeded()) << AwaitExit(1, 0).message();
  EXPECT_TRUE(AwaitExit(1, 1).succeeded());
  AwaitLog("report acked\n", 0);
  AwaitLog("report acked\n", 1);
  EXPECT_EQ(controller_.heard().Log(1),
            "cwd /\nRANK=1\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nSECRET=a b\"c\nLINES=one\ntwo\n"
            "HOME=/\nMUSTER_RESUME=\nwrite done\nreport acked\n");
  EXPECT_EQ(controller_.heard().MetricCount(1), 1u);
  EXPECT_NE(controller_.heard().FindEvent(v1::RankEvent::RUNNING, 1), nullptr);
  EXPECT_TRUE(std::filesystem::exists(root + "/offers/probe")) << "written from inside";
}

TEST_F(AgentPodmanTest, ASaveReachesTheProgram) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"await_term", "say:saved"})));
  AwaitLog("waiting");
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::SAVE, 60'000)));
  EXPECT_TRUE(AwaitExit().stopped());
  AwaitLog("waiting\nasked\nsaved\n");
}

TEST_F(AgentPodmanTest, AStopLeavesNoContainerAndNoProcess) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"leave", "say:up", "hang"})));
  AwaitLog("up");
  LearnName("job-1.a1.g1.r0");
  EXPECT_EQ(Names(), name_ + "\n");
  EXPECT_GE(FindContainerProcesses(name_).size(), 4u) << "conmon, muster-init, and two programs";
  // The program has no handler, and what it left ignores SIGTERM.
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::TERM, 1'000)));
  EXPECT_TRUE(AwaitExit().stopped());
  EXPECT_EQ(Names(), "");
  EXPECT_TRUE(FindContainerProcesses(name_).empty());
}

TEST_F(AgentPodmanTest, APodmanThatIsKilledWhileItStartsAContainerLeavesNothing) {
  StartAgent();
  constexpr uint32_t kTries = 15;
  for (uint32_t attempt = 1; attempt <= kTries; ++attempt) {
    ASSERT_TRUE(controller_.Send(ImageMessage(attempt, {"hang"}, 1, attempt)));
    ASSERT_TRUE(controller_.Await([=](const Heard& heard) {
      return heard.FindEvent(v1::RankEvent::STARTED, 0, attempt) != nullptr;
    }));
    LearnName(absl::StrCat("job-1.a", attempt, ".g1.r0"));
    const v1::RankEvent started =
        *controller_.heard().FindEvent(v1::RankEvent::STARTED, 0, attempt);
    // From before its monitor is there until the program runs, or nearly.
    absl::SleepFor(absl::Milliseconds(10 * (attempt - 1)));
    ::kill(static_cast<pid_t>(started.pid()), SIGKILL);
    EXPECT_FALSE(AwaitExit(attempt).succeeded());
    EXPECT_TRUE(FindContainerProcesses(name_).empty()) << "attempt " << attempt;
    EXPECT_EQ(Names(), "") << "attempt " << attempt;
  }
}

TEST_F(AgentPodmanTest, WithoutItsMonitorAContainerStillEndsWithItsRank) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"say:up", "hang"})));
  AwaitLog("up");
  LearnName("job-1.a1.g1.r0");
  ASSERT_EQ(::kill(FindContainerProcesses(name_).at(0).pid, SIGKILL), 0);
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::TERM, 1'000)));
  EXPECT_TRUE(AwaitExit().stopped());
  EXPECT_EQ(Names(), "");
  EXPECT_TRUE(ProcessesMentioning("MUSTER_RANK_DIR=" + (dir_ / "data")).empty());
}

TEST_F(AgentPodmanTest, AProgramThatEndsAfterItsMonitorEndsItsRank) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"await_term", "exit:0"})));
  AwaitLog("waiting");
  LearnName("job-1.a1.g1.r0");
  // The monitor first, then muster-init, which passes the signal on.
  const std::vector<ProcessId> processes = FindContainerProcesses(name_);
  ASSERT_GE(processes.size(), 3u);
  ::kill(processes[0].pid, SIGKILL);
  ::kill(processes[1].pid, SIGTERM);
  EXPECT_FALSE(AwaitExit().succeeded()) << "what podman never said is not taken for success";
  EXPECT_EQ(Names(), "");
}

TEST_F(AgentPodmanTest, HowTheProgramEndsIsTold) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"exit:125"}, 1, 1)));
  EXPECT_EQ(AwaitExit(1).failure_class(), v1::APPLICATION);
  EXPECT_EQ(AwaitExit(1).exit_code(), 125);
  ASSERT_TRUE(controller_.Send(ImageMessage(2, {"die:11"}, 1, 2)));
  EXPECT_EQ(AwaitExit(2).failure_class(), v1::RANK_KILLED);
  EXPECT_EQ(AwaitExit(2).signal(), SIGSEGV);
  ASSERT_TRUE(controller_.Send(ImageMessage(3, {"hold:200"}, 1, 3)));
  EXPECT_EQ(AwaitExit(3).failure_class(), v1::OUT_OF_MEMORY) << AwaitExit(3).message();
  v1::ControllerMessage unknown = ImageMessage(4, {}, 1, 4);
  nlohmann::json spec = nlohmann::json::parse(unknown.start_ranks().spec_json());
  spec["command"]["image"] = "localhost/muster-no-such-image:1";
  unknown.mutable_start_ranks()->set_spec_json(spec.dump());
  ASSERT_TRUE(controller_.Send(unknown));
  EXPECT_EQ(AwaitExit(4).failure_class(), v1::START_FAILED);
  EXPECT_THAT(AwaitExit(4).message(),
              HasSubstr("podman: initializing source docker://localhost/muster-no-such-image:1"));
}

TEST_F(AgentPodmanTest, TheSitesWordsReachPodman) {
  container_options_ = {"--env=HOME=/site"};
  StartAgent();
  ASSERT_TRUE(controller_.Send(ImageMessage(1, {"print:HOME"})));
  EXPECT_TRUE(AwaitExit().succeeded()) << AwaitExit().message();
  AwaitLog("HOME=/site\n");
}

TEST_F(AgentPodmanTest, AContainerDiesWithItsAgentAndTheNextOneRemovesIt) {
  const std::string token = dir_ / "token";
  std::ofstream(token) << "secret\n";
  ::chmod(token.c_str(), 0600);
  const auto launch = [&] {
    const size_t hellos = controller_.heard().hellos.size();
    auto process = std::make_unique<Subprocess>(
        std::vector<std::string>{Binary("muster-worker"), "--controller", controller_.address(),
                                 "--token-file", token, "--data-dir", dir_ / "data", "--name", "w1",
                                 "--slots", "2", "--allow-commands"},
        ::muster::testing::Environment{}, dir_ / "agent.log");
    EXPECT_TRUE(
        controller_.Await([&](const Heard& heard) { return heard.hellos.size() > hellos; }));
    return process;
  };
  auto process = launch();
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return controller_.Send(ImageMessage(1, {"leave", "say:up", "hang"}));
  }));
  AwaitLog("up");
  LearnName("job-1.a1.g1.r0");
  EXPECT_EQ(Names(), name_ + "\n");
  process->Signal(SIGKILL);
  ASSERT_TRUE(process->Wait(kPatience));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return FindContainerProcesses(name_).empty(); }))
      << "without any agent";
  EXPECT_EQ(Names(), name_ + "\n") << "it has ended, but is there";
  process = launch();
  EXPECT_EQ(Names(), "");
  process->Signal(SIGTERM);
  EXPECT_TRUE(process->Wait(kPatience));
}

}  // namespace
}  // namespace muster::worker
