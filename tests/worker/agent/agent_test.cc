// What an agent does for its ranks, from start to end, and with checkpoints.
#include "worker/agent/agent.h"

#include <dlfcn.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/protocol/phase_beats.h"
#include "httplib.h"
#include "tests/worker/agent/agent_fixture.h"
#include "worker/agent/process/process_scan.h"

namespace muster::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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

// Nothing else of the rank moves in a long evaluation.
TEST_F(AgentTest, CountsTheSignsOfLifeOfARankInHeartbeats) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"beat 5", "hang"})));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {
    return heard.last_heartbeat.ranks_size() == 1 &&
           heard.last_heartbeat.ranks(0).latest().contains(kPhaseBeats) &&
           heard.last_heartbeat.ranks(0).latest().at(kPhaseBeats) == 5;
  }));
}

TEST_F(AgentTest, TakesARanksNumbersOnceAndInTheirOrderAndTellsWhatNeverCame) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"metrics 3", "await_acks", "again", "skip 2",
                                                "metrics 1", "await_again", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await(Logged("again after 3")));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.gaps.empty(); }));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.MetricCount(), 3u) << "none twice, and none before its turn";
  EXPECT_EQ(heard.gaps[0].first_seq(), 4u);
  EXPECT_EQ(heard.gaps[0].last_seq(), 6u);
}

TEST_F(AgentTest, ARankThatItsMemoryLimitEndsIsToldWhatNeededItAndWhatToChange) {
  StartAgent();
  v1::ControllerMessage message =
      StartMessage(1, {"memory_need the run was estimated to need 9GiB (weights 9GiB): try less",
                       "hog 200", "hang"});
  auto spec = nlohmann::json::parse(message.start_ranks().spec_json());
  spec["per_rank"] = {{"memory", "60MiB"}};
  message.mutable_start_ranks()->set_spec_json(spec.dump());
  ASSERT_TRUE(controller_.Send(message));
  ASSERT_TRUE(controller_.Await(Exited));
  const v1::RankEvent exited = *controller_.heard().FindEvent(v1::RankEvent::EXITED);
  EXPECT_EQ(exited.failure_class(), v1::OUT_OF_MEMORY);
  EXPECT_THAT(exited.message(), HasSubstr("per_rank.memory"));
  EXPECT_THAT(exited.message(), HasSubstr("estimated to need 9GiB (weights 9GiB): try less"));
}

TEST_F(AgentTest, ExportsALiveRanksSeriesAndTakesThemAwayWhenItIsGone) {
  StartAgent();
  const auto metrics = [&] {
    httplib::Client client("http://" + agent_.load()->metrics_address());
    const auto result = client.Get("/metrics");
    return result ? result->body : std::string();
  };
  EXPECT_THAT(metrics(), HasSubstr("muster_worker_ranks_started_total 0\n"));
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"metrics 4", "progress train 7", "await_acks", "await_stop"})));
  ASSERT_TRUE(controller_.Await(Logged("acked")));
  const std::string during = metrics();
  EXPECT_THAT(during, HasSubstr("muster_rank_loss{job_id=\"1\",rank=\"0\"} 0.25\n"));
  EXPECT_THAT(during, HasSubstr("muster_rank_step{job_id=\"1\",rank=\"0\"} 7\n"));
  EXPECT_THAT(during, HasSubstr("muster_worker_connected 1\n"));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::KILL, 0)));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_THAT(metrics(), ::testing::Not(HasSubstr("muster_rank_")));
}

TEST_F(AgentTest, ReportsWhatTheRanksGpusHaveDrawn) {
  const std::unique_ptr<void, int (*)(void*)> driver(::dlopen(FAKE_NVML, RTLD_NOW), ::dlclose);
  ASSERT_NE(driver, nullptr) << ::dlerror();
  StartAgent();
  ASSERT_EQ(controller_.heard().hellos.at(0).slots(0).kind(), v1::GPU);
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"metrics 3", "await_acks", "await_stop"})));
  ASSERT_TRUE(controller_.Await(Logged("acked")));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {  // half a joule at each look
    return heard.last_heartbeat.ranks_size() == 1 &&
           heard.last_heartbeat.ranks(0).latest().contains("energy_joules") &&
           heard.last_heartbeat.ranks(0).latest().at("energy_joules") == 1.5;
  }));
  httplib::Client client("http://" + agent_.load()->metrics_address());
  const auto scrape = client.Get("/metrics");
  ASSERT_TRUE(scrape);
  EXPECT_THAT(scrape->body, HasSubstr("muster_rank_energy_joules{job_id=\"1\",rank=\"0\"} 1.5\n"));
}

TEST_F(AgentTest, AnAssignmentThatComesTwiceIsDoneOnceAndAnsweredTwice) {
  StartAgent();
  const auto start = StartMessage(9, {"print once", "hang"});
  ASSERT_TRUE(controller_.Send(start));
  ASSERT_TRUE(controller_.Await(Acked(9)));
  ASSERT_TRUE(controller_.Send(start));
  ASSERT_TRUE(controller_.Send(StartMessage(10, {"hang"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(Acked(10)));
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.FindEvent(v1::RankEvent::STARTED) != nullptr; }));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.assignment_acks.at(9), "");
  EXPECT_THAT(heard.assignment_acks.at(10), HasSubstr("slot 0 is held"));
  size_t started = 0;
  for (const auto& [seq, event] : heard.events)
    started += event.rank_event().kind() == v1::RankEvent::STARTED;
  EXPECT_EQ(started, 1u);
}

TEST_F(AgentTest, AssignmentsThatComeInOneMessageAreDoneInTheirOrder) {
  StartAgent();
  v1::ControllerMessage message = StartMessage(1, {"hang"});
  *message.add_more() = StartMessage(2, {"hang"}, 1, 2);
  *message.add_more() = StopMessage(3, v1::StopRanks::KILL, 0);
  ASSERT_TRUE(controller_.Send(message));
  ASSERT_TRUE(controller_.Await(Acked(3)));
  ASSERT_TRUE(controller_.Await(Exited));
  const Heard heard = controller_.heard();
  EXPECT_THAT(heard.assignment_acks,
              ElementsAre(Pair(1, ""), Pair(2, HasSubstr("slot 0 is held")), Pair(3, "")));
  EXPECT_EQ(heard.FindEvent(v1::RankEvent::EXITED)->signal(), SIGKILL);
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

TEST_F(AgentTest, VerifiesAndDeletesCheckpointsByAssignment) {
  StartAgent();
  const std::string path = dir_ / "step-3.a1.g1";
  std::filesystem::create_directories(path);
  std::ofstream(path + "/MANIFEST.json") << "torn";
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
  // What is not there to be read is no verdict.
  message.mutable_verify_checkpoint()->set_outbox_seq(10);
  message.mutable_verify_checkpoint()->set_path(dir_ / "step-4.a1.g1");
  ASSERT_TRUE(controller_.Send(message));
  ASSERT_TRUE(controller_.Await(Acked(10)));
  const Heard heard = controller_.heard();
  ASSERT_EQ(heard.events.size(), 3u);
  EXPECT_FALSE(heard.events.at(1).verify_result().ok());
  EXPECT_TRUE(heard.events.at(2).delete_result().ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(heard.events.at(3).delete_result().ok());
  EXPECT_THAT(heard.assignment_acks.at(10), HasSubstr("step-4.a1.g1"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "data"));
}

}  // namespace
}  // namespace muster::worker
