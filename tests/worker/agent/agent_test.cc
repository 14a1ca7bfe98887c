// The whole agent against a controller on loopback and ranks that are real processes.
#include "worker/agent/agent.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/fake_controller.h"
#include "worker/agent/process_scan.h"

namespace muster::worker {
namespace {

using ::muster::testing::FakeController;
using ::muster::testing::StatusIs;
using ::muster::testing::Subprocess;
using ::muster::testing::TempDir;
using ::muster::testing::WaitUntil;
using ::testing::HasSubstr;
using Heard = FakeController::Heard;

constexpr absl::Duration kPatience = absl::Minutes(1);

std::string Binary(const std::string& name) {
  const char* folder = ::getenv("MUSTER_BIN_DIR");
  return absl::StrCat(folder == nullptr ? "build/release/bin" : folder, "/", name);
}

bool Lives(uint32_t pid) {
  return ::muster::testing::IsAlive(::muster::testing::IdentifyProcess(static_cast<pid_t>(pid)));
}

v1::ControllerMessage StartMessage(uint64_t seq, const std::vector<std::string>& script,
                                   uint32_t ranks = 1, uint32_t attempt = 1) {
  v1::ControllerMessage message;
  v1::StartRanks& start = *message.mutable_start_ranks();
  start.set_outbox_seq(seq);
  v1::Fence& fence = *start.mutable_fence();
  fence.set_job_id(1);
  fence.set_attempt(attempt);
  fence.set_generation(1);
  fence.set_term(1);
  start.set_job_name("test");
  start.set_world_size(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    v1::StartRanks::Rank& added = *start.add_ranks();
    added.set_rank(rank);
    added.set_local_rank(rank);
    added.add_slots(rank);
  }
  const nlohmann::json spec = {{"train", {{"threads_per_rank", 3}}},
                               {"restart", {{"controller_lost_timeout", "1h"}}},
                               {"script", script}};
  start.set_spec_json(spec.dump());
  start.set_checkpoint_root("/nowhere");
  return message;
}

v1::ControllerMessage StopMessage(uint64_t seq, v1::StopRanks::Mode mode, int64_t grace_ms,
                                  uint32_t attempt = 1) {
  v1::ControllerMessage message;
  v1::StopRanks& stop = *message.mutable_stop_ranks();
  stop.set_outbox_seq(seq);
  stop.mutable_fence()->set_job_id(1);
  stop.mutable_fence()->set_attempt(attempt);
  stop.mutable_fence()->set_generation(1);
  stop.set_mode(mode);
  stop.set_grace_ms(grace_ms);
  stop.set_reason("as the test says");
  return message;
}

bool Exited(const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED) != nullptr; }
auto Logged(const std::string& text) {
  return [text](const Heard& heard) { return heard.Log().find(text) != std::string::npos; };
}
auto Acked(uint64_t seq) {
  return [seq](const Heard& heard) { return heard.assignment_acks.contains(seq); };
}

class AgentTest : public ::testing::Test {
 protected:
  ~AgentTest() override { EndAgent(); }

  AgentConfig Config() {
    AgentConfig config;
    config.controller = controller_.address();
    config.name = "w1";
    config.data_dir = dir_ / "data";
    config.slots = 4;
    config.trainer = trainer_;
    config.stop_grace = absl::Seconds(10);
    return config;
  }

  // Builds and runs an agent on a thread of its own, which forks the ranks and outlives them.
  void StartAgent() {
    auto started = std::make_shared<std::promise<void>>();
    std::future<void> ready = started->get_future();
    thread_ = std::thread([this, started] {
      auto agent = Agent::Create(Config(), clock_, PosixFileSystem());
      if (!agent.ok()) {
        result_ = agent.status();
        started->set_value();
        return;
      }
      agent_ = agent->get();
      started->set_value();
      result_ = (*agent)->Run();
      agent_ = nullptr;
    });
    ready.wait();
    ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.heartbeats > 0; }));
  }
  void PostStop() {
    agent_.load()->loop().mailbox()->Post(
        [agent = agent_.load()] { agent->BeginStop("the test ends"); });
  }
  // Asks it to stop and waits. Its ranks are killed when the script would keep them.
  void EndAgent() {
    if (!thread_.joinable()) return;
    if (agent_ != nullptr) {
      PostStop();
      PostStop();
    }
    thread_.join();
  }

  TempDir dir_;
  std::string trainer_ = Binary("fake_trainer");
  FakeController controller_;
  RealClock clock_;
  std::atomic<Agent*> agent_ = nullptr;
  absl::Status result_;
  std::thread thread_;
};

TEST_F(AgentTest, SaysWhoItIsAndKeepsBeating) {
  StartAgent();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.heartbeats > 3; }));
  const v1::Hello hello = controller_.heard().hellos.at(0);
  EXPECT_EQ(hello.worker_name(), "w1");
  EXPECT_EQ(hello.incarnation().size(), 16u);
  EXPECT_EQ(hello.slots_size(), 4);
  EXPECT_EQ(hello.advertise_address(), "127.0.0.1");
  EXPECT_EQ(hello.metrics_address(), agent_.load()->metrics_address());
  std::ifstream file(dir_ / "data/endpoints.json");
  const auto endpoints = nlohmann::json::parse(file);
  EXPECT_EQ(endpoints["name"], "w1");
  EXPECT_EQ(endpoints["metrics_address"], hello.metrics_address());
}

TEST_F(AgentTest, RunsARankFromStartToSuccess) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      StartMessage(5, {"env OMP_NUM_THREADS", "env CUDA_VISIBLE_DEVICES", "progress train 0",
                       "metrics 3", "await_acks", "write no newline", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await(Logged("no newline")));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.MetricCount() == 3; }));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.assignment_acks.at(5), "");
  EXPECT_EQ(heard.Log(), "OMP_NUM_THREADS=3\nCUDA_VISIBLE_DEVICES=\nacked\nno newline");
  EXPECT_NE(heard.FindEvent(v1::RankEvent::STARTED), nullptr);
  EXPECT_NE(heard.FindEvent(v1::RankEvent::RUNNING), nullptr);
  const v1::RankEvent& exited = *heard.FindEvent(v1::RankEvent::EXITED);
  EXPECT_TRUE(exited.succeeded());
  EXPECT_EQ(exited.last_step(), 3);
  EXPECT_EQ(exited.results().at("test_accuracy"), 0.75);
  // Its logs are acknowledged: nothing of it stays.
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::is_empty(dir_ / "data/ranks"); }));
}

TEST_F(AgentTest, ShowsTheRanksNewestValuesInHeartbeats) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"metrics 4", "progress train 7", "hang"})));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {
    return heard.last_heartbeat.ranks_size() == 1 &&
           heard.last_heartbeat.ranks(0).phase() == "train" &&
           heard.last_heartbeat.ranks(0).step() == 7 &&
           heard.last_heartbeat.ranks(0).latest().contains("loss") &&
           heard.last_heartbeat.ranks(0).latest().at("loss") == 0.25;
  }));
}

TEST_F(AgentTest, AnAssignmentThatComesTwiceIsDoneOnceAndAnsweredTwice) {
  StartAgent();
  const auto start = StartMessage(9, {"print once", "hang"});
  ASSERT_TRUE(controller_.Send(start));
  ASSERT_TRUE(controller_.Await(Acked(9)));
  ASSERT_TRUE(controller_.Send(start));
  ASSERT_TRUE(controller_.Send(StartMessage(10, {"hang"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(Acked(10)));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.assignment_acks.at(9), "");
  EXPECT_THAT(heard.assignment_acks.at(10), HasSubstr("slot 0 is held"));
  size_t started = 0;
  for (const auto& [seq, event] : heard.events)
    started += event.rank_event().kind() == v1::RankEvent::STARTED;
  EXPECT_EQ(started, 1u);
}

TEST_F(AgentTest, ARestartLateAfterItsStopIsFenced) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::KILL, 0)));
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"hang"})));
  ASSERT_TRUE(controller_.Await(Acked(1)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(1), HasSubstr("was stopped"));
}

TEST_F(AgentTest, ATrainerThatIsNotThereIsToldAsAFailedStart) {
  trainer_ = "/no/such/trainer";
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {})));
  ASSERT_TRUE(controller_.Await(Exited));
  const v1::RankEvent exited = *controller_.heard().FindEvent(v1::RankEvent::EXITED);
  EXPECT_EQ(exited.failure_class(), v1::START_FAILED);
  EXPECT_EQ(exited.message(), "cannot execute /no/such/trainer: No such file or directory");
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::STARTED), nullptr);
}

TEST_F(AgentTest, ARankThatEndsWithoutAResultFailed) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"exit 7"})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::EXITED)->failure_class(), v1::APPLICATION);
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::EXITED)->exit_code(), 7);
}

TEST_F(AgentTest, CarriesStoreOperationsBothWays) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"store set a 5", "store get a", "store add a 2", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(Logged("store a found=1 value=7 error=\n")));
  const Heard heard = controller_.heard();
  EXPECT_THAT(heard.Log(), HasSubstr("store a found=1 value=5 error=\n"));
  EXPECT_EQ(heard.store_requests.at(0).fence().job_id(), 1u);
  EXPECT_EQ(heard.store_requests.at(0).timeout_ms(), 60'000);
}

TEST_F(AgentTest, ARankThatIsKilledFromOutsideIsRankKilled) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ::kill(static_cast<pid_t>(controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid()), SIGKILL);
  ASSERT_TRUE(controller_.Await(Exited));
  const v1::RankEvent exited = *controller_.heard().FindEvent(v1::RankEvent::EXITED);
  EXPECT_EQ(exited.failure_class(), v1::RANK_KILLED);
  EXPECT_EQ(exited.signal(), SIGKILL);
}

TEST_F(AgentTest, TheRanksOwnClassIsPassedOn) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"result OUT_OF_MEMORY", "exit 1"})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::EXITED)->failure_class(),
            v1::OUT_OF_MEMORY);
}

TEST_F(AgentTest, ARankThatBreaksTheLinksRulesIsEnded) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"garbage", "hang"})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_THAT(controller_.heard().FindEvent(v1::RankEvent::EXITED)->message(), HasSubstr("'seq'"));
  ASSERT_TRUE(controller_.Send(StartMessage(2, {"long_line", "hang"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED, 0, 2); }));
  EXPECT_THAT(controller_.heard().FindEvent(v1::RankEvent::EXITED, 0, 2)->message(),
              HasSubstr("longer than"));
}

TEST_F(AgentTest, AnExitIsToldOnlyWhenEverythingItStartedIsGone) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"spawn", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(FindProcesses(0, std::filesystem::canonical(dir_ / "data/ranks").string()).empty());
  ASSERT_TRUE(controller_.Await(Logged("child ")));
  EXPECT_TRUE(controller_.heard().FindEvent(v1::RankEvent::EXITED)->succeeded());
}

TEST_F(AgentTest, StopWithSaveLetsTheRankSaveAndLeave) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"await_stop", "checkpoint 8", "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::SAVE, 60'000)));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(controller_.heard().FindEvent(v1::RankEvent::EXITED)->stopped());
  ASSERT_TRUE(controller_.Await(Logged("stop save=1\npublished 8\ncommitted 8 error=\n")));
}

TEST_F(AgentTest, WhoIgnoresSigtermIsKilledAfterTheGrace) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"ignore_term", "print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::TERM, 100)));
  ASSERT_TRUE(controller_.Await(Exited));
  const v1::RankEvent exited = *controller_.heard().FindEvent(v1::RankEvent::EXITED);
  EXPECT_TRUE(exited.stopped());
  EXPECT_EQ(exited.signal(), SIGKILL);
}

TEST_F(AgentTest, MetricsAndLogsArriveExactlyOnceThroughAnOutage) {
  StartAgent();
  const std::string go = dir_ / "go";
  ASSERT_TRUE(controller_.Send(StartMessage(
      1, {"print before", "metrics 300", "await_acks", "await_file " + go, "print during",
          "metrics 300", "await_acks", "print spooled", "await_stop", "result stopped"})));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.MetricCount() == 300; }));
  controller_.Stop();
  std::ofstream(go) << "go";
  // The rank goes on while nobody listens: its numbers are acknowledged from the spool.
  const std::string log = dir_ / "data/ranks/job-1.a1.g1.r0/stdout.log";
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    std::ifstream file(log);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find("spooled") != std::string::npos;
  }));
  EXPECT_EQ(controller_.heard().MetricCount(), 300u);
  controller_.Configure([](auto& behaviour) { behaviour.term = 2; });
  controller_.Start();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.MetricCount() == 600; }));
  ASSERT_TRUE(controller_.Await(Logged("spooled\n")));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.Log(), "before\nacked\nduring\nacked\nspooled\n");
  EXPECT_TRUE(heard.gaps.empty());
  EXPECT_LE(heard.largest_batch, BulkSender::kMaxBatchRecords);
  // The new controller was told of the live rank, and of the old term.
  EXPECT_EQ(heard.hellos.back().ranks_size(), 1);
  EXPECT_EQ(heard.hellos.back().last_term(), 1u);
  EXPECT_EQ(heard.hellos.back().last_assignment_seq(), 1u);
  EXPECT_EQ(heard.hellos.back().incarnation(), heard.hellos.front().incarnation());
}

TEST_F(AgentTest, EventsAreRepeatedUntilTheyAreAcknowledged) {
  controller_.Configure([](auto& behaviour) { behaviour.ack_events = false; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"checkpoint 4", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.events.size() == 3; }));  // started, begin, commit
  controller_.Stop();
  controller_.Configure([](auto& behaviour) { behaviour.ack_events = true; });
  controller_.Start();
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await(Logged("committed 4 error=\n")));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.repeated_events, 3u);
  uint64_t expected = 1;
  for (const auto& [seq, event] : heard.events) EXPECT_EQ(seq, expected++);
}

TEST_F(AgentTest, AnExpiredLeaseWithholdsPublishUntilItIsRenewed) {
  controller_.Configure([](auto& behaviour) { behaviour.ack_heartbeats = false; });
  StartAgent();
  ASSERT_TRUE(
      controller_.Send(StartMessage(1, {"print ready", "checkpoint 4", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(Logged("ready")));
  // The rank asked; many heartbeats later it has still not been let go.
  const size_t beats = controller_.heard().heartbeats;
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) { return heard.heartbeats > beats + 10; }));
  EXPECT_EQ(controller_.heard().Log().find("published"), std::string::npos);
  controller_.Configure([](auto& behaviour) { behaviour.ack_heartbeats = true; });
  ASSERT_TRUE(controller_.Await(Logged("published 4\ncommitted 4 error=\n")));
}

TEST_F(AgentTest, StaleRanksAreKilledAndOthersAdopted) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"hang"}, 2)));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 2; }));
  controller_.Stop();
  v1::Welcome::StaleRank stale;
  stale.set_job_id(1);
  stale.set_attempt(1);
  stale.set_rank(1);
  controller_.Configure([&](auto& behaviour) {
    behaviour.term = 2;
    behaviour.stale = {stale};
  });
  controller_.Start();
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED, 1); }));
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::EXITED, 0), nullptr);
  EXPECT_TRUE(Lives(controller_.heard().FindEvent(v1::RankEvent::STARTED, 0)->pid()));
}

TEST_F(AgentTest, AControllerOfALowerTermIsRefused) {
  controller_.Configure([](auto& behaviour) { behaviour.term = 5; });
  StartAgent();
  controller_.Stop();
  controller_.Configure([](auto& behaviour) { behaviour.term = 4; });
  const size_t hellos = controller_.heard().hellos.size();
  const size_t beats = controller_.heard().heartbeats;
  controller_.Start();
  // It says hello again and again, and never takes this one.
  ASSERT_TRUE(
      controller_.Await([&](const Heard& heard) { return heard.hellos.size() >= hellos + 3; }));
  EXPECT_EQ(controller_.heard().heartbeats, beats);
  controller_.Stop();
  controller_.Configure([](auto& behaviour) { behaviour.term = 6; });
  controller_.Start();
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) { return heard.heartbeats > beats; }));
}

TEST_F(AgentTest, AControllerThatTookItForLostIsJoinedAgain) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  controller_.Configure([](auto& behaviour) {
    behaviour.refuse =
        grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "worker w1 was taken for lost");
  });
  controller_.Stop();
  controller_.Start();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.refused >= 2; }));
  const size_t hellos = controller_.heard().hellos.size();
  controller_.Configure([](auto& behaviour) { behaviour.refuse = grpc::Status::OK; });
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) { return heard.hellos.size() > hellos; }));
  EXPECT_EQ(controller_.heard().hellos.back().ranks_size(), 1);
}

TEST_F(AgentTest, ARefusalForGoodEndsTheAgentAndItsRanks) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  controller_.Configure([](auto& behaviour) {
    behaviour.refuse =
        grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "a newer agent holds the name w1");
  });
  controller_.Stop();
  controller_.Start();
  thread_.join();
  EXPECT_THAT(result_, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("newer agent")));
  EXPECT_FALSE(Lives(pid));
}

TEST_F(AgentTest, AStopGivesNoticeLetsRanksSaveAndEndsWithEverythingSaid) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"metrics 5", "await_stop", "checkpoint 5", "print bye", "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  PostStop();
  thread_.join();
  EXPECT_OK(result_);
  const Heard heard = controller_.heard();
  ASSERT_EQ(heard.notices.size(), 1u);
  EXPECT_EQ(heard.notices[0].grace_ms(), 5000);
  ASSERT_NE(heard.FindEvent(v1::RankEvent::EXITED), nullptr);
  EXPECT_TRUE(heard.FindEvent(v1::RankEvent::EXITED)->stopped());
  EXPECT_THAT(heard.Log(), HasSubstr("committed 5 error=\nbye\n"));
  EXPECT_EQ(heard.MetricCount(), 5u);
}

TEST_F(AgentTest, AStopWithoutAControllerStillEndsTheRanks) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  controller_.Stop();
  PostStop();
  thread_.join();
  EXPECT_OK(result_);
  EXPECT_FALSE(Lives(pid));
}

TEST_F(AgentTest, AWorkerThatStopsTakesNoNewRanks) {
  controller_.Configure([](auto& behaviour) { behaviour.save_on_notice = false; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  PostStop();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.notices.empty(); }));
  ASSERT_TRUE(controller_.Send(StartMessage(2, {"hang"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(Acked(2)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(2), HasSubstr("stopping"));
}

TEST_F(AgentTest, VerifiesAndDeletesCheckpointsByAssignment) {
  StartAgent();
  const std::string path = dir_ / "step-3.a1.g1";
  std::filesystem::create_directories(path);
  v1::ControllerMessage message;
  message.mutable_verify_checkpoint()->set_outbox_seq(7);
  message.mutable_verify_checkpoint()->set_checkpoint_id(3);
  message.mutable_verify_checkpoint()->set_path(path);
  ASSERT_TRUE(controller_.Send(message));
  ASSERT_TRUE(controller_.Await(Acked(7)));
  message.mutable_delete_checkpoint()->set_outbox_seq(8);
  message.mutable_delete_checkpoint()->set_checkpoint_id(3);
  message.mutable_delete_checkpoint()->set_path(path);
  ASSERT_TRUE(controller_.Send(message));
  ASSERT_TRUE(controller_.Await(Acked(8)));
  message.mutable_delete_checkpoint()->set_outbox_seq(9);
  message.mutable_delete_checkpoint()->set_path(dir_ / "data");
  ASSERT_TRUE(controller_.Send(message));
  ASSERT_TRUE(controller_.Await(Acked(9)));
  const Heard heard = controller_.heard();
  ASSERT_EQ(heard.events.size(), 3u);
  EXPECT_FALSE(heard.events.at(1).verify_result().ok());  // an empty folder is no checkpoint
  EXPECT_TRUE(heard.events.at(2).delete_result().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(heard.events.at(3).delete_result().ok());
  EXPECT_TRUE(std::filesystem::exists(dir_ / "data"));
}

TEST_F(AgentTest, ASecondAgentOnTheSameFolderIsRefused) {
  StartAgent();
  EXPECT_THAT(Agent::Create(Config(), clock_, PosixFileSystem()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use")));
}

TEST_F(AgentTest, AMissingTokenFileIsTold) {
  AgentConfig config = Config();
  config.token_file = dir_ / "no-token";
  EXPECT_THAT(Agent::Create(config, clock_, PosixFileSystem()),
              StatusIs(absl::StatusCode::kNotFound));
}

// The real program, so that it can be killed.
class AgentProcessTest : public AgentTest {
 protected:
  std::unique_ptr<Subprocess> Launch() {
    const std::string token = dir_ / "token";
    if (!std::filesystem::exists(token)) {
      std::ofstream(token) << "secret\n";
      ::chmod(token.c_str(), 0600);
    }
    const size_t hellos = controller_.heard().hellos.size();
    auto process = std::make_unique<Subprocess>(
        std::vector<std::string>{Binary("muster-worker"), "--controller", controller_.address(),
                                 "--token-file", token, "--data-dir", dir_ / "data", "--name", "w1",
                                 "--slots", "2", "--trainer", Binary("fake_trainer"),
                                 "--stop-grace", "10s"},
        ::muster::testing::Environment{}, dir_ / "agent.log");
    EXPECT_TRUE(
        controller_.Await([&](const Heard& heard) { return heard.hellos.size() > hellos; }));
    return process;
  }
};

TEST_F(AgentProcessTest, RanksDieWithTheirAgentAndTheNextOneClearsUpAndSendsTheirLogs) {
  controller_.Configure([](auto& behaviour) { behaviour.ack_bulk = false; });
  auto process = Launch();
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return controller_.Send(
        StartMessage(1, {"print up", "spawn", "metrics 2", "await_acks", "hang"}));
  }));
  ASSERT_TRUE(controller_.Await(Logged("acked")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  const std::string text = controller_.heard().Log();
  const size_t at = text.find("child ") + 6;
  const auto child = static_cast<uint32_t>(std::stoul(text.substr(at)));
  EXPECT_TRUE(Lives(pid));
  process->Signal(SIGKILL);
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !Lives(pid); }));
  EXPECT_TRUE(Lives(child));  // it hid in a session of its own, but carries the tag
  controller_.Configure([](auto& behaviour) { behaviour.ack_bulk = true; });
  process = Launch();
  EXPECT_FALSE(Lives(child));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::is_empty(dir_ / "data/ranks"); }));
  const Heard heard = controller_.heard();
  EXPECT_NE(heard.hellos.front().incarnation(), heard.hellos.back().incarnation());
  EXPECT_EQ(heard.hellos.back().ranks_size(), 0);
  EXPECT_EQ(heard.MetricCount(), 2u);
  EXPECT_THAT(heard.Log(), HasSubstr("acked\n"));
}

TEST_F(AgentProcessTest, SigtermEndsItWithZero) {
  auto process = Launch();
  process->Signal(SIGTERM);
  ASSERT_TRUE(process->Wait(kPatience));
  EXPECT_EQ(process->exit_code(), 0);
}

}  // namespace
}  // namespace muster::worker
