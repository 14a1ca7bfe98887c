// What an agent does for ranks that are any program.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/phase_beats.h"
#include "tests/support/hanging_file_system.h"
#include "tests/support/held_process.h"
#include "tests/support/hung_mount.h"
#include "tests/worker/agent/agent_fixture.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/identity/identity_file.h"
#include "worker/agent/identity/surroundings.h"
#include "worker/agent/process/process_scan.h"
#include "worker/agent/process/rank_cgroup.h"

namespace muster::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Running(const Heard& heard) { return heard.FindEvent(v1::RankEvent::RUNNING) != nullptr; }

const v1::RankEvent& ExitOf(const Heard& heard, uint32_t rank = 0, uint32_t attempt = 1) {
  return *heard.FindEvent(v1::RankEvent::EXITED, rank, attempt);
}

// A command in a folder that the agent has to fetch.
v1::ControllerMessage UploadMessage(uint64_t seq) {
  v1::ControllerMessage message = CommandMessage(seq, {"true"});
  nlohmann::json spec = nlohmann::json::parse(message.start_ranks().spec_json());
  spec["command"]["upload"] = std::string(64, 'a');
  spec["command"]["workdir"] = ".";
  message.mutable_start_ranks()->set_spec_json(spec.dump());
  return message;
}

// So many pieces of it have come.
auto SeenToFetch(size_t pieces) {
  return [pieces](const Heard& heard) {
    const v1::Heartbeat& beat = heard.last_heartbeat;
    return beat.ranks_size() == 1 && beat.ranks(0).latest().contains(kPhaseBeats) &&
           beat.ranks(0).latest().at(kPhaseBeats) == static_cast<double>(pieces);
  };
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

TEST_F(AgentTest, ACommandThatClosesAllItsDescriptorsIsARankLikeAnyOther) {
  StartAgent();
  const std::string up = dir_ / "up";
  const std::string go = dir_ / "go";
  ASSERT_TRUE(controller_.Send(
      CommandMessage(1, {"sh", "-c",
                         absl::StrCat("exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&-; : > ", up,
                                      "; until [ -e ", go, " ]; do sleep 0.01; done; exit 4")})));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::exists(up); }));
  const size_t before = controller_.heard().heartbeats;
  ASSERT_TRUE(
      controller_.Await([before](const Heard& heard) { return heard.heartbeats > before + 20; }));
  EXPECT_EQ(controller_.heard().last_heartbeat.ranks_size(), 1);
  EXPECT_FALSE(Exited(controller_.heard()));
  std::ofstream(go) << "now";
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::EXITED)->exit_code(), 4);
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

// A large one over a slow link: the controller must not take that for a start that hangs.
TEST_F(AgentTest, AFolderThatIsSlowToComeIsSeenToGetOn) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(UploadMessage(1)));
  for (const size_t pieces : {3, 4}) {
    controller_.Configure([&](auto& behaviour) { behaviour.upload_pieces = pieces; });
    ASSERT_TRUE(controller_.Await(SeenToFetch(pieces)));
  }
}

TEST_F(AgentTest, AFolderThatNobodyWaitsForAnyMoreIsNotFetchedOn) {
  controller_.Configure([](auto& behaviour) { behaviour.upload_pieces = 1; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(UploadMessage(1)));
  ASSERT_TRUE(controller_.Await(SeenToFetch(1)));
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::KILL, 0)));
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.fetches_ended == 1; }));
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

uint32_t ReadNumber(const std::string& file) {
  std::ifstream in(file);
  uint32_t number = 0;
  in >> number;
  return number;
}

void SkipWithoutCgroups() {
  const auto cgroups = RankCgroups::Open(absl::StrCat("probe-", ::getpid()));
  if (!cgroups.ok()) GTEST_SKIP() << "no cgroups can be made here: " << cgroups.status().message();
}

// Ranks whose children hide: no environment, a session of their own, no output.
class HiddenChildTest : public AgentTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    cgroups_ = GetParam();
    if (cgroups_) SkipWithoutCgroups();
  }
  // A rank leaves a process that is called as podman's monitor is; when the rank is over, so is it.
  void ExpectNoneIsTakenForAMonitor() {
    StartAgent();
    const std::string child = dir_ / "child";
    const std::string program = dir_ / "conmon";
    ASSERT_TRUE(controller_.Send(CommandMessage(
        1,
        {"sh", "-c",
         absl::StrCat("cp /bin/sleep ", program, "; env -i setsid sh -c 'echo $$ > ", child,
                      "; exec ", program, " 1000 > /dev/null 2>&1 < /dev/null' & until [ \"$(cat ",
                      "/proc/$(cat ", child, ")/comm)\" = conmon ]; do sleep 0.01; done")})));
    ASSERT_TRUE(controller_.Await(Exited));
    ASSERT_NE(ReadNumber(child), 0u);
    EXPECT_FALSE(Lives(ReadNumber(child)));
  }
  // A child that says its number in `file`.
  static std::string Hide(const std::string& file) {
    return absl::StrCat("env -i setsid sh -c 'echo $$ > ", file,
                        "; exec sleep 1000 > /dev/null 2>&1 < /dev/null' & until [ -s ", file,
                        " ]; do sleep 0.01; done; sleep 0.05; ");
  }
};

TEST_P(HiddenChildTest, NothingOfARankOutlivesIt) {
  StartAgent();
  const std::string child = dir_ / "child";
  const std::string grandchild = dir_ / "grandchild";
  ASSERT_TRUE(controller_.Send(CommandMessage(
      1, {"sh", "-c",
          absl::StrCat(Hide(child), "(", Hide(grandchild), ") > /dev/null 2>&1; exit 0")})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(controller_.heard().FindEvent(v1::RankEvent::EXITED)->succeeded());
  ASSERT_NE(ReadNumber(child), 0u);
  ASSERT_NE(ReadNumber(grandchild), 0u);
  EXPECT_FALSE(Lives(ReadNumber(child)));
  EXPECT_FALSE(Lives(ReadNumber(grandchild)));
}

TEST_P(HiddenChildTest, ANameDoesNotMakeAProcessAContainersMonitor) {
  ExpectNoneIsTakenForAMonitor();
}

TEST_P(HiddenChildTest, NorDoesItWhereARuntimeIsThatRunsNothing) {
  std::filesystem::create_directories(dir_ / "bin");
  std::ofstream(dir_ / "bin/podman") << "#!/bin/sh\nexit 0\n";
  ASSERT_EQ(::chmod((dir_ / "bin/podman").c_str(), 0755), 0);
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", absl::StrCat(dir_ / "bin", ":", path).c_str(), 1);
  container_runtime_ = "podman";
  ExpectNoneIsTakenForAMonitor();
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(controller_.heard().hellos[0].container_runtimes(), ElementsAre("podman"));
}

TEST_P(HiddenChildTest, TheEndOfARankEndsNothingOfAnotherThatLives) {
  StartAgent();
  const std::string kept = dir_ / "kept";
  v1::ControllerMessage other =
      CommandMessage(1, {"sh", "-c", absl::StrCat("(", Hide(kept), "); exec sleep 1000")});
  other.mutable_start_ranks()->mutable_fence()->set_job_id(2);
  other.mutable_start_ranks()->mutable_ranks(0)->set_slots(0, 1);
  ASSERT_TRUE(controller_.Send(other));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return ReadNumber(kept) != 0; }));
  const std::string gone = dir_ / "gone";
  ASSERT_TRUE(controller_.Send(CommandMessage(2, {"sh", "-c", Hide(gone)})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_FALSE(Lives(ReadNumber(gone)));
  EXPECT_TRUE(Lives(ReadNumber(kept)));
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCgroups, HiddenChildTest, ::testing::Bool());

TEST_F(AgentTest, ARestartDoesNotWaitForTheRemovalOfWhatAnEarlierAttemptLeft) {
  const std::string root = dir_ / "jobs/7";
  const std::string stale = root + "/step-1.a1.g1.ab.tmp";
  const std::string own = root + "/step-1.a2.g1.ab.tmp";
  for (const std::string& folder : {stale, own}) std::filesystem::create_directories(folder);
  ::muster::testing::HangingFileSystem fs({stale});
  fs_ = &fs;
  path_patience_ = absl::Seconds(2);
  StartAgent();
  v1::ControllerMessage start = CommandMessage(1, {"true"}, 1, /*attempt=*/2);
  start.mutable_start_ranks()->set_checkpoint_root(root);
  EXPECT_TRUE(controller_.Send(start));
  EXPECT_TRUE(controller_.Await(ExitedIn(2)));
  const Heard heard = controller_.heard();
  const v1::RankEvent* exit = heard.FindEvent(v1::RankEvent::EXITED, 0, /*attempt=*/2);
  EXPECT_TRUE(exit != nullptr && exit->succeeded()) << (exit == nullptr ? "" : exit->message());
  EXPECT_TRUE(std::filesystem::exists(stale)) << "its removal hangs";
  fs.Release();
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !std::filesystem::exists(stale); }));
  EXPECT_TRUE(std::filesystem::exists(own)) << "of this attempt";
  EndAgent();
}

// Paths that a job names, on a file system whose server never answers.
class HungPathTest : public AgentTest {
 protected:
  void SetUp() override {
    path_patience_ = absl::Milliseconds(300);
    hung_ = ::muster::testing::HungMount::Make(dir_ / "hung");
    if (hung_ == nullptr) GTEST_SKIP() << "nothing can be mounted here";
  }
  void TearDown() override {
    if (hung_ == nullptr) return;
    // The agent ends although threads of it still hang.
    EndAgent();
    EXPECT_OK(result_);
    hung_->Release();
  }
  std::string Hung(const std::string& name) { return dir_ / "hung/" + name; }
  static const v1::RankEvent* EndOf(const Heard& heard, uint64_t job) {
    for (const auto& [number, event] : heard.events) {
      const v1::RankEvent& one = event.rank_event();
      if (one.kind() == v1::RankEvent::EXITED && one.fence().job_id() == job) return &one;
    }
    return nullptr;
  }
  // One whose checkpoint root is `root`; by a second attempt it is read first.
  static v1::ControllerMessage Start(uint64_t job, uint32_t attempt, const std::string& root) {
    v1::ControllerMessage message = CommandMessage(job, {"true"}, 1, attempt);
    v1::StartRanks& start = *message.mutable_start_ranks();
    start.mutable_fence()->set_job_id(job);
    start.mutable_ranks(0)->set_slots(0, static_cast<uint32_t>(job % 4));
    start.set_checkpoint_root(root);
    return message;
  }

  std::unique_ptr<::muster::testing::HungMount> hung_;
};

TEST_F(HungPathTest, AStartFailsWithThePathNamedAndNothingElseWaits) {
  StartAgent();
  std::vector<std::pair<v1::ControllerMessage, std::string>> starts;
  const auto add = [&](v1::ControllerMessage message, const std::string& path) {
    v1::StartRanks& start = *message.mutable_start_ranks();
    const uint64_t job = 10 + starts.size();
    start.mutable_fence()->set_job_id(job);
    start.mutable_ranks(0)->set_slots(0, static_cast<uint32_t>(starts.size() % 3));
    start.set_outbox_seq(job);
    if (start.checkpoint_root() == CheckpointRoot()) {
      start.set_checkpoint_root(absl::StrCat(CheckpointRoot(), job));
    }
    starts.emplace_back(std::move(message), path);
  };
  add(CommandMessage(1, {"true"}, 1, 1, Hung("folder")), Hung("folder"));
  add(CommandMessage(1, {Hung("program")}), Hung("program"));
  add(With(CommandMessage(1, {"true"}), "command",
           {{"argv", {"true"}}, {"workdir", "/"}, {"env", {{"PATH", Hung("bin") + ":/bin"}}}}),
      Hung("bin/true"));
  v1::ControllerMessage no_root = CommandMessage(1, {"true"});
  no_root.mutable_start_ranks()->set_checkpoint_root(Hung("jobs/1"));
  add(no_root, Hung("jobs/1"));
  v1::ControllerMessage resumes = CommandMessage(1, {"true"}, 1, /*attempt=*/2);
  resumes.mutable_start_ranks()->set_checkpoint_root(Hung("jobs/2"));
  add(resumes, Hung("jobs/2"));
  uint64_t seq = 100;
  for (const auto& [message, path] : starts) {
    const size_t beats = controller_.heard().heartbeats;
    ASSERT_TRUE(controller_.Send(message));
    const uint64_t job = message.start_ranks().fence().job_id();
    // Meanwhile another job comes and goes.
    v1::ControllerMessage beside = CommandMessage(++seq, {"true"});
    beside.mutable_start_ranks()->mutable_fence()->set_job_id(seq);
    beside.mutable_start_ranks()->mutable_ranks(0)->set_slots(0, 3);
    beside.mutable_start_ranks()->set_checkpoint_root(absl::StrCat(CheckpointRoot(), seq));
    ASSERT_TRUE(controller_.Send(beside));
    ASSERT_TRUE(controller_.Await([&](const Heard& heard) {
      return EndOf(heard, seq) != nullptr && EndOf(heard, job) != nullptr;
    })) << path;
    const Heard heard = controller_.heard();
    EXPECT_TRUE(EndOf(heard, seq)->succeeded()) << EndOf(heard, seq)->message();
    EXPECT_EQ(EndOf(heard, job)->failure_class(), v1::START_FAILED) << path;
    EXPECT_THAT(EndOf(heard, job)->message(), HasSubstr(path));
    EXPECT_GT(heard.heartbeats, beats + 2) << path;
    EXPECT_EQ(heard.hellos.size(), 1u) << path;
  }
}

TEST_F(HungPathTest, CheckpointsWhoseReadingHangsHoldUpNoStart) {
  StartAgent();
  constexpr uint64_t kFirst = 100;
  constexpr uint64_t kEnd = kFirst + SideThreads::kMaxThreads;
  const auto ended = [](uint64_t job) {
    return [job](const Heard& heard) { return EndOf(heard, job) != nullptr; };
  };
  // Each takes a thread and never gives it back; four at a time, as there are four slots.
  for (uint64_t job = kFirst; job < kEnd; ++job) {
    if (job >= kFirst + 4) {
      ASSERT_TRUE(controller_.Await(ended(job - 4)));
    }
    ASSERT_TRUE(controller_.Send(Start(job, /*attempt=*/2, Hung("jobs/1"))));
  }
  for (uint64_t job = kEnd - 4; job < kEnd; ++job) {
    ASSERT_TRUE(controller_.Await(ended(job)));
  }
  // One more cannot be read, and says what that waits for; one that reads nothing starts.
  const std::string root = CheckpointRoot();
  ASSERT_TRUE(controller_.Send(Start(kEnd, /*attempt=*/2, absl::StrCat(root, kEnd))));
  ASSERT_TRUE(controller_.Send(Start(kEnd + 1, /*attempt=*/1, absl::StrCat(root, kEnd + 1))));
  ASSERT_TRUE(controller_.Await(ended(kEnd)));
  ASSERT_TRUE(controller_.Await(ended(kEnd + 1)));
  const Heard heard = controller_.heard();
  EXPECT_EQ(EndOf(heard, kEnd)->failure_class(), v1::START_FAILED);
  EXPECT_THAT(EndOf(heard, kEnd)->message(), HasSubstr(Hung("jobs/1")));
  EXPECT_TRUE(EndOf(heard, kEnd + 1)->succeeded()) << EndOf(heard, kEnd + 1)->message();
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

TEST_F(FrozenTest, ASlotIsNotFreeWhileAnythingOfItsRankIsLeft) {
  StartAgent();
  const std::string up = dir_ / "up";
  const std::string go = dir_ / "go";
  ASSERT_TRUE(controller_.Send(
      CommandMessage(1, {"sh", "-c",
                         absl::StrCat("env -i setsid sh -c 'echo $$ > ", up,
                                      "; exec sleep 1000 > /dev/null 2>&1' & until [ -e ", go,
                                      " ]; do sleep 0.01; done")})));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return ReadNumber(up) != 0; }));
  ASSERT_TRUE(controller_.Await(Running));
  const uint32_t leader = controller_.heard().FindEvent(v1::RankEvent::RUNNING)->pid();
  Write("cgroup.procs", absl::StrCat(ReadNumber(up)));
  Write("freezer.state", "FROZEN");
  std::ofstream(go).put('x');
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return !Lives(leader); }));
  const size_t beats = controller_.heard().heartbeats;
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) { return heard.heartbeats > beats + 5; }));
  EXPECT_FALSE(Exited(controller_.heard())) << "its slot is not free";
  Write("freezer.state", "THAWED");
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_FALSE(Lives(ReadNumber(up)));
}

// What SIGKILL does not end: a process that its tracer stops on its way out and never lets go on.
// To the agent that is what a hung driver looks like: the process has been killed, and is there.
class UnkillableTest : public AgentTest {
 protected:
  ~UnkillableTest() override { Release(); }

  void Hold(uint32_t pid) {
    EXPECT_TRUE(held_.Hold(static_cast<pid_t>(pid)))
        << "this test must be allowed to trace its own processes";
  }
  // The process dies now.
  void Release() { held_.Release(); }
  // A rank whose leader lives until `go` is there, and leaves a child that carries nothing of it.
  // The child, once both are there.
  uint32_t StartWithHiddenChild(const std::string& go) {
    const std::string up = dir_ / "up";
    EXPECT_TRUE(controller_.Send(CommandMessage(
        1, {"sh", "-c",
            absl::StrCat("env -i setsid sh -c 'echo $$ > ", up,
                         "; exec sleep 1000 > /dev/null 2>&1 < /dev/null' & until [ -e ", go,
                         " ]; do sleep 0.01; done")})));
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return ReadNumber(up) != 0; }));
    EXPECT_TRUE(controller_.Await(Running));
    return ReadNumber(up);
  }
  // The slot stays held for a while after the leader's end.
  void ExpectHeldAfter(const std::string& go) {
    const uint32_t leader = controller_.heard().FindEvent(v1::RankEvent::RUNNING)->pid();
    std::ofstream(go).put('x');
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return !Lives(leader); }));
    const size_t beats = controller_.heard().heartbeats;
    ASSERT_TRUE(
        controller_.Await([&](const Heard& heard) { return heard.heartbeats > beats + 5; }));
    EXPECT_FALSE(Exited(controller_.heard())) << "its slot is not free";
  }

  ::muster::testing::HeldProcess held_;
};

class OrphanTest : public UnkillableTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    cgroups_ = GetParam();
    if (cgroups_) SkipWithoutCgroups();
  }
};

TEST_P(OrphanTest, ASlotIsNotFreeWhileAnOrphanOfItsRankDoesNotDie) {
  StartAgent();
  const std::string go = dir_ / "go";
  const uint32_t orphan = StartWithHiddenChild(go);
  Hold(orphan);
  ExpectHeldAfter(go);
  EXPECT_TRUE(Lives(orphan));
  Release();
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_FALSE(Lives(orphan));
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCgroups, OrphanTest, ::testing::Bool());

// Only the cgroup counts it: it is older than the rank, so that neither what it carries nor whose
// child it is makes it the rank's.
TEST_F(UnkillableTest, ASlotIsNotFreeWhileItsCgroupHoldsAnyProcess) {
  SkipWithoutCgroups();
  if (IsSkipped()) return;
  const pid_t older = ::fork();
  ASSERT_GE(older, 0);
  if (older == 0) {
    const char* const environment[] = {nullptr};
    ::setsid();
    ::execle("/bin/sleep", "sleep", "1000", nullptr, environment);
    ::_exit(1);
  }
  StartAgent();
  const std::string go = dir_ / "go";
  const std::string cgroup = dir_ / "cgroup";
  ASSERT_TRUE(controller_.Send(CommandMessage(
      1, {"sh", "-c",
          absl::StrCat("cat /proc/self/cgroup > ", cgroup, ".tmp; mv ", cgroup, ".tmp ", cgroup,
                       "; until [ -e ", go, " ]; do sleep 0.01; done")})));
  ASSERT_TRUE(controller_.Await(Running));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::exists(cgroup); }));
  const uint32_t leader = controller_.heard().FindEvent(v1::RankEvent::RUNNING)->pid();
  ASSERT_LT(Identify(older).started, Identify(static_cast<pid_t>(leader)).started);
  const auto own = RankCgroups::OwnFolder();
  ASSERT_OK(own);
  std::ifstream in(cgroup);
  std::string line;
  while (std::getline(in, line) && !absl::StartsWith(line, "0::")) {
  }
  const std::string procs =
      absl::StrCat(*own, "/", line.substr(line.rfind('/') + 1), "/cgroup.procs");
  ASSERT_TRUE(std::filesystem::exists(procs)) << procs;
  std::ofstream(procs) << older << std::flush;
  Hold(static_cast<uint32_t>(older));
  ExpectHeldAfter(go);
  Release();
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_FALSE(Lives(static_cast<uint32_t>(older)));
  ::waitpid(older, nullptr, 0);  // unless the agent, whose child it is as well, has done it
}

TEST_F(UnkillableTest, AnAgentThatIsToldToStopDoesNotWaitForWhatCannotBeKilled) {
  kill_patience_ = absl::Milliseconds(100);
  controller_.Configure([](auto& behaviour) { behaviour.save_on_notice = false; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"sh", "-c", "echo up; exec sleep 1000"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Await(Running));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::RUNNING)->pid();
  Hold(pid);
  EndAgent();  // kills the rank, and comes back
  EXPECT_OK(result_);
  EXPECT_TRUE(Lives(pid));
  const Heard heard = controller_.heard();
  EXPECT_NE(heard.FindEvent(v1::RankEvent::UNKILLABLE), nullptr) << "it said so before it went";
  EXPECT_FALSE(Exited(heard));
  Release();
  ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
}

TEST_F(UnkillableTest, ARankThatCannotBeKilledIsGivenUpAndItsWorkerDrainedUntilItDies) {
  kill_patience_ = absl::Milliseconds(100);
  controller_.Configure([](auto& behaviour) { behaviour.save_on_notice = false; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(CommandMessage(1, {"sh", "-c", "echo up; exec sleep 1000"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(controller_.Await(Running));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::RUNNING)->pid();
  Hold(pid);
  ASSERT_TRUE(controller_.Send(StopMessage(2, v1::StopRanks::KILL, 0)));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.notices.empty(); }));
  const Heard heard = controller_.heard();
  ASSERT_NE(heard.FindEvent(v1::RankEvent::UNKILLABLE), nullptr) << "its cause comes first";
  EXPECT_THAT(heard.packed_events, Contains(ElementsAre(2, 3))) << "its job does not come back";
  for (const std::string& message :
       {heard.notices[0].message(), heard.FindEvent(v1::RankEvent::UNKILLABLE)->message()}) {
    EXPECT_THAT(message, HasSubstr("of job 1, rank 0, did not die within 100ms of SIGKILL"));
  }
  EXPECT_EQ(heard.FindEvent(v1::RankEvent::UNKILLABLE)->failure_class(), v1::WORKER_LOST);
  // Its slot is not free, also for another gang.
  EXPECT_FALSE(Exited(heard));
  EXPECT_TRUE(Lives(pid));
  ASSERT_TRUE(controller_.Send(CommandMessage(3, {"true"}, 1, 2)));
  ASSERT_TRUE(controller_.Await(Acked(3)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(3), HasSubstr("held by another rank"));
  Release();
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await([](const Heard& h) { return h.notices.size() == 2; }));
  EXPECT_TRUE(controller_.heard().notices[1].withdrawn());
}

TEST_F(UnkillableTest, WhatAnEarlierAgentLeftAndCannotBeKilledHoldsTheWorkerBackUntilItDies) {
  kill_patience_ = absl::Milliseconds(100);
  // A life of the folder, of which the next one could say that it is over.
  const std::string data = dir_ / "data";
  std::filesystem::create_directories(data);
  const std::string former(kIdentityBytes, 'f');
  IdentityFile::Begin(PosixFileSystem(), data, ReadSurroundings(data), former, former);
  const std::string tag = absl::StrCat("MUSTER_RANK_DIR=", dir_ / "data/ranks/job-1.a1.g1.r0");
  const char* const environment[] = {tag.c_str(), nullptr};
  const pid_t leftover = ::fork();
  ASSERT_GE(leftover, 0);
  if (leftover == 0) {
    ::execle("/bin/sleep", "sleep", "1000", nullptr, environment);
    ::_exit(1);
  }
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    const auto found = FindProcesses(0, dir_ / "data/ranks");
    return found.size() == 1;
  }));
  Hold(static_cast<uint32_t>(leftover));
  StartAgent();
  const std::string what = absl::StrCat("process ", leftover, " of an earlier run");
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) {
    return !heard.notices.empty() && absl::StrContains(heard.notices.back().message(), what);
  }));
  EXPECT_TRUE(controller_.heard().hellos.back().predecessors().empty()) << "they are not dead";
  EXPECT_TRUE(controller_.heard().hellos.back().takes_no_work());
  ASSERT_TRUE(controller_.Send(CommandMessage(3, {"true"})));
  ASSERT_TRUE(controller_.Await(Acked(3)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(3), HasSubstr("does not die of SIGKILL"));
  Release();
  ::waitpid(leftover, nullptr, 0);  // unless the agent, whose child it is as well, has done it
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.notices.back().withdrawn(); }));
  ASSERT_TRUE(controller_.Send(CommandMessage(4, {"true"})));
  ASSERT_TRUE(controller_.Await(Exited));
}

// It cleared its environment, left its session and its output, and has no parent of ours: only its
// cgroup tells whose it was.
TEST_F(UnkillableTest, WhatIsInACgroupOfAnEarlierAgentHoldsTheWorkerBackThoughItCarriesNothing) {
  kill_patience_ = absl::Milliseconds(100);
  std::filesystem::create_directories(dir_ / "data");
  AgentConfig config = Config();
  config.data_dir = std::filesystem::canonical(config.data_dir).string();
  const auto folder = RankCgroups::OwnFolder();
  if (!folder.ok()) GTEST_SKIP() << folder.status().message();
  const std::string path = absl::StrCat(*folder, "/muster-rank-", CgroupName(config), ".1");
  if (::mkdir(path.c_str(), 0755) != 0) GTEST_SKIP() << "no cgroup can be made in " << *folder;
  const pid_t leftover = ::fork();
  ASSERT_GE(leftover, 0);
  if (leftover == 0) {
    const char* const environment[] = {nullptr};
    ::setsid();
    ::execle("/bin/sleep", "sleep", "1000", nullptr, environment);
    ::_exit(1);
  }
  std::ofstream(path + "/cgroup.procs") << leftover;
  ASSERT_THAT(RankCgroups::ProcessesBelow(*folder, CgroupName(config)),
              ElementsAre(Identify(leftover)));
  Hold(static_cast<uint32_t>(leftover));
  StartAgent();
  const std::string what = absl::StrCat("process ", leftover, " of an earlier run");
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) {
    return !heard.notices.empty() && absl::StrContains(heard.notices.back().message(), what);
  }));
  ASSERT_TRUE(controller_.Send(CommandMessage(3, {"true"})));
  ASSERT_TRUE(controller_.Await(Acked(3)));
  EXPECT_THAT(controller_.heard().assignment_acks.at(3), HasSubstr("does not die of SIGKILL"));
  Release();
  ::waitpid(leftover, nullptr, 0);  // unless the agent, whose child it is as well, has done it
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.notices.back().withdrawn(); }));
  ASSERT_TRUE(controller_.Send(CommandMessage(4, {"true"})));
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_EQ(::rmdir(path.c_str()), 0);
}

}  // namespace
}  // namespace muster::worker
