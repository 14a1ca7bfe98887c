// An agent whose controller goes, comes back, or is not the right one; and agents that stop or are
// killed.
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>

#include "absl/strings/str_split.h"
#include "tests/worker/agent/agent_fixture.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::Subprocess;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_GE(heard.hellos.back().acknowledged_event_seq(), 1u) << "STARTED at least";
  EXPECT_LE(heard.hellos.back().acknowledged_event_seq(), heard.events.rbegin()->first);
  EXPECT_EQ(heard.hellos.back().incarnation(), heard.hellos.front().incarnation());
}

TEST_F(AgentTest, ARankEndsWhenItsControllerIsAwayForTooLong) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"}, 1, 1, "300ms")));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  controller_.Stop();
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !Lives(pid); }));
  controller_.Start();
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_THAT(controller_.heard().FindEvent(v1::RankEvent::EXITED)->message(),
              HasSubstr("has been away"));
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
  EXPECT_THAT(heard.packed_events, Contains(ElementsAre(1, 2, 3))) << "said at once, sent at once";
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

TEST_F(AgentTest, HeartbeatsGoOnWhileTheLoopStandsStill) {
  // However long the stall lasts here, it is no lease's end.
  controller_.Configure(
      [](auto& behaviour) { behaviour.lease_ms = absl::ToInt64Milliseconds(kPatience); });
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  std::promise<void> release;
  std::promise<void> stands;
  mailbox_->Post([&] {
    stands.set_value();
    release.get_future().wait();
  });
  stands.get_future().wait();
  const size_t beats = controller_.heard().heartbeats;
  EXPECT_TRUE(controller_.Await([&](const Heard& heard) { return heard.heartbeats > beats + 20; }));
  EXPECT_EQ(controller_.heard().last_heartbeat.ranks_size(), 1);
  release.set_value();
  const uint64_t seq = controller_.heard().last_heartbeat.seq();
  EXPECT_TRUE(
      controller_.Await([&](const Heard& heard) { return heard.last_heartbeat.seq() > seq + 3; }));
  EXPECT_EQ(controller_.heard().hellos.size(), 1u) << "its session stood all the while";
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

TEST_F(AgentTest, ANoticeOutlivesTheConnectionThatItCouldNotBeGivenOver) {
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      CommandMessage(1, {"sh", "-c", "trap '' TERM; echo up; while true; do sleep 1000; done"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  controller_.Stop();
  PostStop();
  controller_.Start();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.notices.empty(); }));
  const Heard heard = controller_.heard();
  EXPECT_EQ(heard.notices[0].message(), "the test ends");
  EXPECT_EQ(heard.events.rbegin()->second.body_case(), v1::WorkerMessage::kNotice);
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

// The controller starts anew while a rank saves for the agent's stop.
TEST_F(AgentTest, ARankThatWasToldToSaveKeepsItsTimeWhileTheControllerIsAwayForAMoment) {
  stop_grace_ = absl::Minutes(2);
  StartAgent();
  const std::string go = dir_ / "go";
  ASSERT_TRUE(controller_.Send(StartMessage(
      1, {"await_stop", "await_file " + go, "checkpoint 5", "print bye", "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  PostStop();
  ASSERT_TRUE(controller_.Await(Logged("stop save=1")));
  const size_t hellos = controller_.heard().hellos.size();
  controller_.Stop();
  controller_.Start();
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) { return heard.hellos.size() > hellos; }));
  EXPECT_FALSE(controller_.heard().hellos.front().takes_no_work());
  EXPECT_TRUE(controller_.heard().hellos.back().takes_no_work()) << "also before its notice comes";
  std::ofstream(go) << "go";
  thread_.join();
  EXPECT_OK(result_);
  const Heard heard = controller_.heard();
  ASSERT_NE(heard.FindEvent(v1::RankEvent::EXITED), nullptr);
  EXPECT_TRUE(heard.FindEvent(v1::RankEvent::EXITED)->stopped());
  EXPECT_EQ(heard.FindEvent(v1::RankEvent::EXITED)->signal(), 0);
  EXPECT_THAT(heard.Log(), HasSubstr("committed 5 error=\nbye\n"));
}

TEST_F(AgentTest, ARankThatNobodyToldToSaveIsAskedToWhenTheControllerGoes) {
  stop_grace_ = absl::Minutes(2);
  controller_.Configure([](auto& behaviour) { behaviour.save_on_notice = false; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"await_stop", "checkpoint 5", "print bye", "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  PostStop();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.notices.empty(); }));
  controller_.Stop();
  controller_.Start();
  thread_.join();
  EXPECT_OK(result_);
  const Heard heard = controller_.heard();
  ASSERT_NE(heard.FindEvent(v1::RankEvent::EXITED), nullptr);
  EXPECT_TRUE(heard.FindEvent(v1::RankEvent::EXITED)->stopped());
  EXPECT_THAT(heard.Log(), HasSubstr("stop save=1\n"));
  EXPECT_THAT(heard.Log(), HasSubstr("committed 5 error=\nbye\n"));
}

TEST_F(AgentTest, HowARankEndedWhileTheControllerWasAwayIsToldBeforeTheAgentEnds) {
  stop_grace_ = absl::Minutes(2);
  StartAgent();
  const std::string go = dir_ / "go";
  ASSERT_TRUE(
      controller_.Send(StartMessage(1, {"await_stop", "await_file " + go, "result stopped"})));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 1; }));
  PostStop();
  ASSERT_TRUE(controller_.Await(Logged("stop save=1")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  controller_.Stop();
  std::ofstream(go) << "go";
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return !Lives(pid); }));
  controller_.Start();
  thread_.join();
  EXPECT_OK(result_);
  const Heard heard = controller_.heard();
  ASSERT_NE(heard.FindEvent(v1::RankEvent::EXITED), nullptr);
  EXPECT_TRUE(heard.FindEvent(v1::RankEvent::EXITED)->stopped());
}

TEST_F(AgentTest, WhoDoesNotSaveIsEndedWithTheGraceThoughTheControllerIsGone) {
  stop_grace_ = absl::Seconds(2);
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"ignore_term", "print up", "hang"})));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  const uint32_t pid = controller_.heard().FindEvent(v1::RankEvent::STARTED)->pid();
  const absl::Duration began = clock_.SinceBoot();
  PostStop();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.notices.empty(); }));
  controller_.Stop();
  thread_.join();
  EXPECT_OK(result_);
  EXPECT_GE(clock_.SinceBoot() - began, stop_grace_) << "it had all of its time";
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

TEST_F(AgentTest, AnAgentWhoseNameIsHeldSaysHelloUntilItIsFree) {
  controller_.Configure([](auto& behaviour) {
    behaviour.refuse = grpc::Status(grpc::StatusCode::ABORTED, "an agent holds this name");
  });
  auto run = std::async(std::launch::async, [this] { StartAgent(); });
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.refused >= 3; }));
  controller_.Configure([](auto& behaviour) { behaviour.refuse = grpc::Status::OK; });
  run.get();
  EXPECT_EQ(controller_.heard().hellos.size(), 1u);
}

TEST_F(AgentTest, ASecondAgentOnTheSameFolderIsRefused) {
  StartAgent();
  EXPECT_THAT(Agent::Create(Config(), clock_, PosixFileSystem()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("holds this folder")));
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
  std::unique_ptr<Subprocess> Launch() { return Launch(controller_); }
  std::unique_ptr<Subprocess> Launch(FakeController& controller) {
    const std::string token = dir_ / "token";
    if (!std::filesystem::exists(token)) {
      std::ofstream(token) << "secret\n";
      ::chmod(token.c_str(), 0600);
    }
    const size_t hellos = controller.heard().hellos.size();
    auto process = std::make_unique<Subprocess>(
        std::vector<std::string>{Binary("muster-worker"), "--controller", controller.address(),
                                 "--token-file", token, "--data-dir", dir_ / "data", "--name", "w1",
                                 "--slots", "2", "--trainer", Binary("fake_trainer"),
                                 "--stop-grace", "10s", "--allow-commands"},
        ::muster::testing::Environment{{"MUSTER_LOG_LEVEL", log_level_}}, dir_ / "agent.log");
    EXPECT_TRUE(controller.Await([&](const Heard& heard) { return heard.hellos.size() > hellos; }));
    return process;
  }

  std::string log_level_ = "error";
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
  ASSERT_TRUE(process->Wait(kPatience));  // its lock goes with the last of its threads
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

TEST_F(AgentProcessTest, NoFolderThatAJobLeftKeepsTheNextAgentFromStarting) {
  Launch()->Signal(SIGKILL);
  // 70 folders in each other, of an upload and of a rank, and read-only ones.
  for (const char* left : {"data/work/job-7.a1.g1", "data/ranks/job-7.a1.g1.r0"}) {
    std::string deep = dir_ / left;
    for (int i = 0; i < 70; ++i) {
      std::filesystem::create_directories(deep += "/d");
      if (i > 60) std::filesystem::permissions(deep, std::filesystem::perms(0700));
    }
    std::filesystem::permissions(deep, std::filesystem::perms(0000));
    std::filesystem::permissions(dir_ / left, std::filesystem::perms(0500));
  }
  // And one that not even root removes: something is mounted in it.
  const std::string mounted = dir_ / "data/ranks/spare-0/mounted";
  std::filesystem::create_directories(mounted);
  const bool is_mounted =
      ::mount(dir_.path().c_str(), mounted.c_str(), nullptr, MS_BIND, nullptr) == 0;
  auto process = Launch();
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::is_empty(dir_ / "data/ranks"); }));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "data/work"));
  const std::filesystem::path trash = dir_ / "data/trash";
  const size_t stays = is_mounted ? 1 : 0;
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(trash), {})) ==
           stays;
  }));
  for (const auto& entry : std::filesystem::directory_iterator(trash)) {
    EXPECT_EQ(::umount2((entry.path() / "mounted").c_str(), MNT_DETACH), 0);
  }
  process->Signal(SIGTERM);
  ASSERT_TRUE(process->Wait(kPatience));
  EXPECT_EQ(process->exit_code(), 0);
}

TEST_F(AgentProcessTest, WhatItWritesIsItsUsersAloneAndRanksKeepTheGivenMask) {
  const mode_t before = ::umask(0022);
  // A bound on processes that the agent and its ranks see, where this user has none.
  rlimit own = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NPROC, &own), 0);
  rlimit bound = own;
  if (own.rlim_cur == RLIM_INFINITY) bound.rlim_cur = 50'000;
  ASSERT_EQ(::setrlimit(RLIMIT_NPROC, &bound), 0);
  auto process = Launch();
  ASSERT_EQ(::setrlimit(RLIMIT_NPROC, &own), 0);
  ::umask(before);
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return controller_.Send(StartMessage(1, {"print up", "hang"}));
  }));
  ASSERT_TRUE(controller_.Await(Logged("up")));
  size_t seen = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(dir_ / "data");
  for (; entries != std::filesystem::end(entries); entries.increment(error)) {
    const std::filesystem::directory_entry& entry = *entries;
    struct stat info = {};
    // A file that is written under another name first goes away meanwhile.
    if (::lstat(entry.path().c_str(), &info) != 0 && errno == ENOENT) continue;
    EXPECT_EQ(info.st_mode & 0077, 0u) << entry.path();
    const std::string name = entry.path().filename();
    if (name == "launch.json" || name == "stdout.log" || name == "stderr.log") ++seen;
  }
  EXPECT_EQ(seen, 3u);
  v1::ControllerMessage command =
      CommandMessage(2,
                     {"sh", "-c",
                      "echo mask $(umask) oom $(cat /proc/self/oom_score_adj) "
                      "processes $(grep '^Max processes' /proc/self/limits)"},
                     1, /*attempt=*/2);
  command.mutable_start_ranks()->mutable_ranks(0)->set_slots(0, 1);
  ASSERT_TRUE(controller_.Send(command));
  constexpr rlim_t kExempt = 128;  // for the agent
  const std::string said =
      absl::StrCat("mask 0022 oom 500 processes Max processes ", bound.rlim_cur - kExempt, " ");
  ASSERT_TRUE(controller_.Await(
      [](const Heard& heard) { return heard.Log(0, 2).find('\n') != std::string::npos; }));
  EXPECT_THAT(controller_.heard().Log(0, 2), HasSubstr(said));
}

TEST_F(AgentProcessTest, WhereNothingBoundsItsRanksProcessesItSaysSoOnce) {
  log_level_ = "info";
  Launch().reset();
  std::ifstream in(dir_ / "agent.log");
  const std::string log((std::istreambuf_iterator<char>(in)), {});
  const auto count = [&](const std::string& text) {
    return std::vector<std::string>(absl::StrSplit(log, text)).size() - 1;
  };
  ASSERT_EQ(count("event=cgroups "), 1u) << log;
  const bool is_bounded = ::getuid() != 0 || count("processes=0 ") == 0;
  EXPECT_EQ(count("event=processes_unbounded "), is_bounded ? 0u : 1u) << log;
}

TEST_F(AgentProcessTest, TheNextAgentOfItsFolderSaysWhoIsDeadAndNoOtherDoes) {
  auto process = Launch();
  process->Signal(SIGKILL);
  ASSERT_TRUE(process->Wait(kPatience));
  process = Launch();
  process->Signal(SIGKILL);
  ASSERT_TRUE(process->Wait(kPatience));
  // The folder as a copy of it has it: the same bytes under another number.
  std::filesystem::copy(dir_ / "data", dir_ / "copy", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(dir_ / "data");
  std::filesystem::rename(dir_ / "copy", dir_ / "data");
  process = Launch();
  const std::vector<v1::Hello> hellos = controller_.heard().hellos;
  ASSERT_EQ(hellos.size(), 3u);
  EXPECT_EQ(hellos[0].identity().size(), 16u);
  EXPECT_TRUE(hellos[0].predecessors().empty());
  EXPECT_EQ(hellos[1].identity(), hellos[0].identity());
  EXPECT_THAT(hellos[1].predecessors(), ElementsAre(hellos[0].incarnation()));
  EXPECT_TRUE(hellos[2].predecessors().empty()) << "the other folder's agent may live";
}

// Somebody starts the controller on an old copy of its folder while the agents are down.
TEST_F(AgentProcessTest, AnAgentRemembersTheHighestTermOverItsLives) {
  controller_.Configure([](auto& behaviour) { behaviour.term = 5; });
  auto process = Launch();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.heartbeats > 0; }));
  process->Signal(SIGKILL);
  ASSERT_TRUE(process->Wait(kPatience));
  controller_.Configure([](auto& behaviour) { behaviour.term = 4; });
  const size_t beats = controller_.heard().heartbeats;
  process = Launch();
  const size_t hellos = controller_.heard().hellos.size();
  ASSERT_TRUE(
      controller_.Await([&](const Heard& heard) { return heard.hellos.size() >= hellos + 2; }));
  EXPECT_EQ(controller_.heard().hellos.back().last_term(), 5u);
  EXPECT_EQ(controller_.heard().heartbeats, beats);
}

// The controller's data folder was set up anew, or the agent is told of another controller.
TEST_F(AgentProcessTest, AnotherControllerIsFollowedByTheNextLife) {
  controller_.Configure([](auto& behaviour) { behaviour.term = 5; });
  auto process = Launch();
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.heartbeats > 0; }));
  controller_.Stop();
  controller_.Configure([](auto& behaviour) {
    behaviour.id = "another";
    behaviour.term = 1;
  });
  controller_.Start();
  ASSERT_TRUE(process->Wait(kPatience)) << "what it holds is the former's";
  EXPECT_NE(process->exit_code(), 0);
  const size_t beats = controller_.heard().heartbeats;
  process = Launch();
  ASSERT_TRUE(controller_.Await([&](const Heard& heard) { return heard.heartbeats > beats; }));
}

// Both count their jobs from 1, and may share the machine's data folder over time.
class FormerJobsTest : public AgentProcessTest {
 protected:
  // An agent dies with a rank of which its controller has taken nothing.
  void LeaveUndelivered();
  // And its next life has another controller.
  void LeaveAndGoToAnother(const std::function<void()>& between);
};

void FormerJobsTest::LeaveUndelivered() {
  controller_.Configure([](auto& behaviour) { behaviour.ack_bulk = false; });
  auto process = Launch();
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return controller_.Send(StartMessage(1, {"print former", "metrics 5", "await_acks", "hang"}));
  }));
  ASSERT_TRUE(controller_.Await(Logged("acked")));
  process->Signal(SIGKILL);
  ASSERT_TRUE(process->Wait(kPatience));
}

void FormerJobsTest::LeaveAndGoToAnother(const std::function<void()>& between) {
  ASSERT_NO_FATAL_FAILURE(LeaveUndelivered());
  between();
  FakeController another;
  another.Configure([](auto& behaviour) { behaviour.id = std::string(16, 'd'); });
  const auto process = Launch(another);
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return another.Send(
        StartMessage(1, {"print its own", "metrics 3", "await_acks", "result succeeded"}));
  }));
  ASSERT_TRUE(another.Await(Exited));
  ASSERT_TRUE(another.Await([](const Heard& heard) { return heard.MetricCount() >= 3; }));
  ASSERT_TRUE(another.Await(Logged("acked\n")));
  const Heard heard = another.heard();
  EXPECT_EQ(heard.Log(), "its own\nacked\n");
  EXPECT_EQ(heard.MetricCount(), 3u);
  EXPECT_EQ(heard.repeated_records, 0u);
  EXPECT_TRUE(heard.gaps.empty());
}

TEST_F(FormerJobsTest, AnotherControllerHearsNothingOfThem) {
  LeaveAndGoToAnother([] {});
}

// As who goes back to an old copy of a controller's folder is advised to do.
TEST_F(FormerJobsTest, AnotherControllerHearsNothingOfThemWhereTheIdentityWasRemoved) {
  LeaveAndGoToAnother(
      [this] { ASSERT_TRUE(std::filesystem::remove(dir_ / "data/identity.json")); });
}

// It gives the numbers of attempts that it does not know of a second time.
TEST_F(FormerJobsTest, AControllerThatWentBackToABackupStartsItsRanksInFoldersOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(LeaveUndelivered());
  FakeController restored;
  const auto process = Launch(restored);
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return restored.Send(StartMessage(1, {"print its own", "metrics 7", "await_acks", "hang"}));
  }));
  const auto read = [log = dir_ / "data/ranks/job-1.a1.g1.r0/stdout.log"] {
    std::ifstream file(log);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return read() == "its own\nacked\n"; })) << read();
  const size_t beats = restored.heard().heartbeats;
  ASSERT_TRUE(restored.Await([&](const Heard& heard) { return heard.heartbeats >= beats + 3; }));
  EXPECT_EQ(read(), "its own\nacked\n") << "the folder of a rank that runs was removed";
}

TEST_F(AgentProcessTest, SigtermEndsItWithZero) {
  auto process = Launch();
  process->Signal(SIGTERM);
  ASSERT_TRUE(process->Wait(kPatience));
  EXPECT_EQ(process->exit_code(), 0);
}

}  // namespace
}  // namespace muster::worker
