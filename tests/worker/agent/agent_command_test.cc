// What an agent does for ranks that are any program.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/worker/agent/agent_fixture.h"
#include "worker/agent/process_scan.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;

const v1::RankEvent& ExitOf(const Heard& heard, uint32_t rank = 0, uint32_t attempt = 1) {
  return *heard.FindEvent(v1::RankEvent::EXITED, rank, attempt);
}

TEST_F(AgentTest, RunsACommandsExactWordsInItsFolder) {
  StartAgent();
  const std::string folder = std::filesystem::canonical(dir_.path()).string();
  ASSERT_TRUE(controller_.Send(CommandMessage(
      1,
      {"sh", "-c", "pwd; echo \"$0|$1|$RANK/$WORLD_SIZE|$LOCAL_WORLD_SIZE\"; ls /proc/self/fd",
       "$HOME", "a  b"},
      1, 1, folder)));
  ASSERT_TRUE(controller_.Await(Exited));
  // stdin, stdout, stderr and the folder that ls reads: nothing of the agent is inherited.
  ASSERT_TRUE(controller_.Await(Logged(folder + "\n$HOME|a  b|0/1|1\n0\n1\n2\n3\n")));
  const Heard heard = controller_.heard();
  EXPECT_NE(heard.FindEvent(v1::RankEvent::RUNNING), nullptr);
  EXPECT_TRUE(ExitOf(heard).succeeded());
}

TEST_F(AgentTest, ACommandIsRefusedWhereCommandsAreNotAllowed) {
  allow_commands_ = false;
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"true"})));
  ASSERT_TRUE(controller_.Await(Acked(1)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(1), HasSubstr("--allow-commands"));
}

TEST_F(AgentTest, ACommandsExitCodeAndSignalAreItsWord) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"sh", "-c", "exit 3"})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(ExitOf(controller_.heard()).failure_class(), v1::APPLICATION);
  EXPECT_EQ(ExitOf(controller_.heard()).exit_code(), 3);
  ASSERT_TRUE(controller_.Send(CommandMessage(2, {"sh", "-c", "kill -SEGV $$"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED, 0, 2); }));
  EXPECT_EQ(ExitOf(controller_.heard(), 0, 2).failure_class(), v1::RANK_KILLED);
  EXPECT_EQ(ExitOf(controller_.heard(), 0, 2).signal(), SIGSEGV);
}

TEST_F(AgentTest, WhatIsMissingForACommandIsNamed) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"true"}, 1, 1, "/no/such/folder")));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(ExitOf(controller_.heard()).failure_class(), v1::START_FAILED);
  EXPECT_EQ(ExitOf(controller_.heard()).message(),
            "command.workdir: /no/such/folder is not there on worker w1");
  EXPECT_EQ(ExitOf(controller_.heard()).missing(), v1::RankEvent::ON_WORKER);
  ASSERT_TRUE(controller_.Send(CommandMessage(2, {"no-such-program"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED, 0, 2); }));
  EXPECT_THAT(ExitOf(controller_.heard(), 0, 2).message(),
              HasSubstr("no program `no-such-program` in PATH"));
  EXPECT_EQ(ExitOf(controller_.heard(), 0, 2).missing(), v1::RankEvent::ON_WORKER);
  // There, but its interpreter is not.
  const std::string script = dir_ / "script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  ASSERT_TRUE(controller_.Send(CommandMessage(3, {script}, 1, 3)));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED, 0, 3); }));
  EXPECT_EQ(ExitOf(controller_.heard(), 0, 3).missing(), v1::RankEvent::ON_WORKER);
}

TEST_F(AgentTest, RanksOfOneGangShareOnePortAndGangsDoNot) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      CommandMessage(1, {"sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT; exec sleep 1000"}, 2)));
  v1::ControllerMessage other =
      CommandMessage(2, {"sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT; exec sleep 1000"}, 2);
  other.mutable_start_ranks()->mutable_fence()->set_job_id(2);
  for (v1::StartRanks::Rank& rank : *other.mutable_start_ranks()->mutable_ranks()) {
    rank.set_slots(0, rank.rank() + 2);
  }
  ASSERT_TRUE(controller_.Send(other));
  const auto said = [](const Heard& heard, uint64_t job, uint32_t rank) -> std::string {
    const auto it = heard.logs.find(RankKey{job, 1, 1, rank});
    return it == heard.logs.end() ? "" : it->second.begin()->second;
  };
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) {
    return !said(heard, 1, 0).empty() && !said(heard, 1, 1).empty() && !said(heard, 2, 1).empty();
  }));
  const Heard heard = controller_.heard();
  EXPECT_THAT(said(heard, 1, 0), ::testing::StartsWith("127.0.0.1:"));
  EXPECT_EQ(said(heard, 1, 0), said(heard, 1, 1));
  EXPECT_NE(said(heard, 1, 0), said(heard, 2, 1));
}

TEST_F(AgentTest, AGangOnSeveralWorkersAgreesThroughItsStore) {
  StartAgent();
  // This worker has rank 0 of two: it publishes the port before it starts it.
  v1::ControllerMessage first = CommandMessage(1, {"sh", "-c", "echo port $MASTER_PORT"});
  first.mutable_start_ranks()->set_world_size(2);
  ASSERT_TRUE(controller_.Send(first));
  ASSERT_TRUE(controller_.Await(Exited));
  // As if another worker had the first rank, which has published: the fake store knows no fence.
  v1::ControllerMessage second = CommandMessage(2, {"sh", "-c", "echo port $MASTER_PORT"}, 1, 2);
  second.mutable_start_ranks()->set_world_size(2);
  second.mutable_start_ranks()->mutable_ranks(0)->set_rank(1);
  ASSERT_TRUE(controller_.Send(second));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {
    return heard.Log(1, 2).find('\n') != std::string::npos &&
           heard.Log().find('\n') != std::string::npos;
  }));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.Log(1, 2), heard.Log(0, 1));
  ASSERT_EQ(heard.store_requests.size(), 2u);
  EXPECT_EQ(heard.store_requests[0].op(), v1::StoreRequest::SET);
  EXPECT_EQ(heard.store_requests[1].op(), v1::StoreRequest::GET);
}

TEST_F(AgentTest, AGangThatWaitsForItsPortCanBeStopped) {
  StartAgent();
  controller_.Configure([](FakeController::Behaviour& b) { b.answer_store = false; });
  v1::ControllerMessage start = CommandMessage(1, {"true"});
  start.mutable_start_ranks()->set_world_size(2);
  ASSERT_TRUE(controller_.Send(start));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {
    return heard.last_heartbeat.ranks_size() == 1 &&
           heard.last_heartbeat.ranks(0).phase() == "rendezvous";
  }));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::KILL, 0)));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(ExitOf(controller_.heard()).stopped());
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::RUNNING), nullptr);
}

// The same spec with more in it.
v1::ControllerMessage With(v1::ControllerMessage message, const char* section,
                           const nlohmann::json& value) {
  auto spec = nlohmann::json::parse(message.start_ranks().spec_json());
  spec[section] = value;
  message.mutable_start_ranks()->set_spec_json(spec.dump());
  return message;
}

TEST_F(AgentTest, ARankThatAskedForCpusRunsOnThem) {
  StartAgent();
  ASSERT_TRUE(
      controller_.Send(With(CommandMessage(1, {"sh", "-c", "nproc; echo threads $OMP_NUM_THREADS"}),
                            "per_rank", {{"cpus", 1}})));
  ASSERT_TRUE(controller_.Await(Logged("1\nthreads 1\n")));
}

TEST_F(AgentTest, ARankThatHoldsMoreMemoryThanItWasGivenIsEnded) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(With(
      CommandMessage(
          1, {"sh", "-c", "x=$(head -c 100000000 /dev/zero | tr '\\0' x); sleep 1000; echo $x"}),
      "per_rank", {{"memory", "30MiB"}})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(ExitOf(controller_.heard()).failure_class(), v1::OUT_OF_MEMORY);
  EXPECT_THAT(ExitOf(controller_.heard()).message(), HasSubstr("per_rank.memory is 30"));
}

TEST_F(AgentTest, ARankWithoutTheGpusOfItsSpecIsRefused) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(With(CommandMessage(1, {"true"}), "per_rank", {{"gpus", 1}})));
  ASSERT_TRUE(controller_.Await(Acked(1)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(1), HasSubstr("wants 1 GPUs"));
}

TEST_F(AgentTest, ACommandAskedToSaveGetsSigtermAndItsLeaveCountsAsStopped) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(
      1, {"sh", "-c", "trap 'echo saved; exit 5' TERM; echo up; while :; do sleep 0.05; done"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::SAVE, 60'000)));
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await(Logged("up\nsaved\n")));
  EXPECT_TRUE(ExitOf(controller_.heard()).stopped());
  EXPECT_EQ(ExitOf(controller_.heard()).exit_code(), 5);
}

TEST_F(AgentTest, ACommandInAShellThatDiesOfTheSignalMayStillSave) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"sh", "-c",
                                                  "sh -c \"trap 'sleep 0.3; echo saved; exit 0' "
                                                  "TERM; echo up; while :; do sleep 0.05; done\"; "
                                                  "echo never"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::SAVE, 60'000)));
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await(Logged("up\nsaved\n")));
  EXPECT_TRUE(ExitOf(controller_.heard()).stopped());
}

TEST_F(AgentTest, WhatAShellLeftBehindIsKilledAfterTheGrace) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(
      1,
      {"sh", "-c", "sh -c \"trap '' TERM; echo up; while :; do sleep 0.05; done\"; echo never"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::SAVE, 300)));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(ExitOf(controller_.heard()).stopped());
  EXPECT_TRUE(FindProcesses(0, std::filesystem::canonical(dir_ / "data/ranks").string()).empty());
}

TEST_F(AgentTest, ACommandToldToLeaveIsToldWithAllThatItStarted) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      CommandMessage(1, {"sh", "-c", "sleep 1000 & setsid sleep 1000 & echo up; wait"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::TERM, 60'000)));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(ExitOf(controller_.heard()).stopped());
  EXPECT_TRUE(FindProcesses(0, std::filesystem::canonical(dir_ / "data/ranks").string()).empty());
}

// What SIGKILL does not end: a process that the freezer of cgroup v1 holds.
class FrozenTest : public AgentTest {
 protected:
  void SetUp() override {
    std::error_code error;
    std::filesystem::create_directory(folder_, error);
    if (error || !std::filesystem::exists(folder_ + "/freezer.state")) {
      GTEST_SKIP() << "no freezer of cgroup v1 here: " << error.message();
    }
  }
  void TearDown() override {
    if (!std::filesystem::exists(folder_ + "/freezer.state")) return;
    Write("freezer.state", "THAWED");
    EndAgent();
    std::error_code ignored;
    EXPECT_TRUE(std::filesystem::remove(folder_, ignored));
  }
  void Write(const std::string& file, const std::string& text) {
    std::ofstream out(folder_ + "/" + file);
    out << text << std::flush;
    EXPECT_TRUE(out.good()) << file;
  }

  const std::string folder_ = absl::StrCat("/sys/fs/cgroup/freezer/muster-test-", ::getpid());
};

TEST_F(FrozenTest, ARankThatCannotBeKilledDrainsItsWorker) {
  kill_patience_ = absl::Milliseconds(100);
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"sh", "-c", "echo up; exec sleep 1000"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  Write("cgroup.procs", absl::StrCat(controller_.heard().FindEvent(v1::RankEvent::RUNNING)->pid()));
  Write("freezer.state", "FROZEN");
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::KILL, 0)));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.notices.empty(); }));
  EXPECT_THAT(controller_.heard().notices[0].message(),
              HasSubstr("of job 1, rank 0, did not die within 100ms of SIGKILL"));
  EXPECT_FALSE(Exited(controller_.heard())) << "its slot is not free";
  Write("freezer.state", "THAWED");
  ASSERT_TRUE(controller_.Await(Exited));
}

}  // namespace
}  // namespace muster::worker
