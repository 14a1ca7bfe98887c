#include "worker/agent/process/rank_process.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/time/clock.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/process/process_scan.h"
#include "worker/agent/process/rank_cgroup.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

// Real processes of a real shell.
class RankProcessTest : public ::testing::Test {
 protected:
  RankCommand Shell(const std::string& script) {
    RankCommand command;
    command.program = "/bin/sh";
    command.argv = {"sh", "-c", script};
    command.environment = {"PATH=/usr/bin:/bin"};
    command.directory = dir_.path();
    command.log_directory = dir_.path();
    command.link = false;
    return command;
  }
  std::unique_ptr<RankProcess> Start(const std::string& script, int cgroup_fd = -1) {
    RankCommand command = Shell(script);
    command.cgroup_fd = cgroup_fd;
    auto process = RankProcess::Start(command, children_);
    EXPECT_OK(process);
    return process.ok() ? *std::move(process) : nullptr;
  }
  static void AwaitEnd(const RankProcess& process) {
    pollfd ended = {process.exit_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ended, 1, 60'000), 1);
  }
  std::string Output() {
    std::ifstream in(dir_ / "stdout.log");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Its cgroups, or why there are none.
  absl::StatusOr<std::unique_ptr<RankCgroups>> Cgroups() {
    return RankCgroups::Open("test-" + std::to_string(::getpid()));
  }

  TempDir dir_;
  ChildProcesses children_;
};

TEST_F(RankProcessTest, WhatOutlivesItsStarterIsFoundByWhereItWrites) {
  const auto process = Start(
      "env -i setsid sh -c 'echo $$ > up; exec sleep 600' & "
      "until [ -s up ]; do sleep 0.01; done; cat up");
  AwaitEnd(*process);
  const ProcessId left = Identify(std::stoi(Output()));
  // No tag, and no group of ours; but its output is the rank's log.
  EXPECT_THAT(FindProcesses(process->pid(), dir_.path()), ::testing::ElementsAre(left));
  EXPECT_TRUE(BelongsTo(left.pid, 0, dir_.path()));
  EXPECT_FALSE(BelongsTo(left.pid, 0, dir_ / "other"));
  EXPECT_TRUE(SignalProcess(left, SIGKILL));
  while (!children_.ReapOrphans()->empty()) {
  }
  EXPECT_FALSE(SignalProcess(left, SIGKILL));
}

TEST_F(RankProcessTest, ALookWithoutDescriptorsSaysThatItMayHaveMissedSome) {
  const auto process = Start(
      "env -i setsid sh -c 'echo $$ > up; exec sleep 600' & "
      "until [ -s up ]; do sleep 0.01; done; cat up");
  AwaitEnd(*process);
  const ProcessId left = Identify(std::stoi(Output()));
  EXPECT_FALSE(ScanIncomplete());
  {
    const ::muster::testing::NoDescriptors none;
    // No matcher: the sanitizer's check of its type needs a descriptor.
    EXPECT_TRUE(FindProcesses(process->pid(), dir_.path()).empty());
    EXPECT_TRUE(ScanIncomplete());
    EXPECT_EQ(Identify(left.pid).started, 0u);
    EXPECT_TRUE(ScanIncomplete());
  }
  EXPECT_FALSE(ScanIncomplete());
  EXPECT_THAT(FindProcesses(process->pid(), dir_.path()), ::testing::ElementsAre(left));
  EXPECT_FALSE(ScanIncomplete());
  EXPECT_TRUE(SignalProcess(left, SIGKILL));
  while (!children_.ReapOrphans()->empty()) {
  }
}

TEST_F(RankProcessTest, WhatHasNothingOfItsRankComesToTheAgentAsAnOrphan) {
  const auto process = Start(
      "env -i setsid sh -c 'echo $$ > up; exec sleep 600 >/dev/null 2>&1' & "
      "until [ -s up ]; do sleep 0.01; done; sleep 0.1; cat up");
  AwaitEnd(*process);
  const pid_t left = std::stoi(Output());
  EXPECT_THAT(FindProcesses(process->pid(), dir_.path()), ::testing::IsEmpty());
  EXPECT_THAT(*children_.ReapOrphans(), ::testing::ElementsAre(left));
  // That it is ended for that is shown in AgentTest, where an agent does it.
  EXPECT_TRUE(SignalProcess(Identify(left), SIGKILL));
  while (!children_.ReapOrphans()->empty()) {
  }
}

TEST_F(RankProcessTest, ALeaderThatKeepsOrphansIsTheirParentWhileItLives) {
  RankCommand command = Shell(
      "(setsid sh -c 'echo $$ > up; exec sleep 600 >/dev/null 2>&1' &); "
      "until [ -s up ]; do sleep 0.01; done; cat up; until [ -e go ]; do sleep 0.01; done");
  command.keeps_orphans = true;
  const auto process = *RankProcess::Start(command, children_);
  while (Output().empty()) ::usleep(1000);
  const pid_t left = std::stoi(Output());
  EXPECT_THAT(*children_.ReapOrphans(), ::testing::IsEmpty());
  std::ofstream(dir_ / "go").put('x');
  AwaitEnd(*process);
  EXPECT_THAT(*children_.ReapOrphans(), ::testing::ElementsAre(left));
  EXPECT_TRUE(SignalProcess(Identify(left), SIGKILL));
  while (!children_.ReapOrphans()->empty()) {
  }
}

TEST_F(RankProcessTest, ASignalHitsNoOtherProcessOfThatNumber) {
  const auto process = Start("exec sleep 600");
  ProcessId stranger = Identify(process->pid());
  ++stranger.started;
  EXPECT_FALSE(SignalProcess(stranger, SIGKILL));
  EXPECT_FALSE(process->Ended().has_value());
}

TEST_F(RankProcessTest, ARankIsEndedBeforeTheAgentAndLeavesItSomeProcesses) {
  RankCommand command = Shell("umask; cat /proc/self/oom_score_adj; cat /proc/self/limits");
  command.file_mask = 0027;
  command.oom_score_adj = 300;
  command.process_headroom = 100;
  const auto process = *RankProcess::Start(command, children_);
  AwaitEnd(*process);
  const std::string said = Output();
  EXPECT_THAT(said, ::testing::StartsWith("0027\n300\n"));
  rlimit own = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NPROC, &own), 0);
  if (own.rlim_cur == RLIM_INFINITY || own.rlim_cur <= 200) GTEST_SKIP() << "no limit here";
  EXPECT_THAT(
      said, ::testing::ContainsRegex("Max processes *" + std::to_string(own.rlim_cur - 100) + " "));
}

TEST_F(RankProcessTest, LeadersAreNoOrphans) {
  const auto one = Start("exec sleep 600");
  const auto two = Start("exit 3");
  AwaitEnd(*two);
  EXPECT_THAT(*children_.ReapOrphans(), ::testing::IsEmpty());
  EXPECT_EQ(two->Ended()->code, 3) << "still there to be asked";
}

TEST_F(RankProcessTest, ACgroupEndsAllThatARankStarted) {
  const auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(auto cgroup, (*cgroups)->Make(0));
  const auto process =
      Start("setsid sleep 600 & env -i setsid sleep 600 & echo x; exec sleep 600", cgroup->fd());
  cgroup->Kill();
  AwaitEnd(*process);
  EXPECT_EQ(process->Ended()->signal, SIGKILL);
  process->Reap();
  while (!children_.ReapOrphans()->empty()) {
  }
  EXPECT_TRUE(cgroup->IsEmpty());
}

TEST_F(RankProcessTest, ACgroupThatARankLeftEmptyServesALaterOne) {
  auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(auto used, (*cgroups)->Make(0));
  const std::string path = used->path();
  const auto process = Start("until [ -e go ]; do sleep 0.01; done", used->fd());
  EXPECT_FALSE(used->IsEmpty());
  std::ofstream(dir_ / "go").put('x');
  AwaitEnd(*process);
  EXPECT_TRUE(used->IsEmpty());
  used.reset();
  ASSERT_OK_AND_ASSIGN(auto later, (*cgroups)->Make(0));
  EXPECT_EQ(later->path(), path);
  ASSERT_OK_AND_ASSIGN(const auto beside, (*cgroups)->Make(0));
  EXPECT_NE(beside->path(), path) << "in use";
  const auto next = Start("exit 3", later->fd());
  AwaitEnd(*next);
  EXPECT_EQ(next->Ended()->code, 3);
}

TEST_F(RankProcessTest, ACgroupThatWasKilledServesNoOther) {
  auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(auto used, (*cgroups)->Make(0));
  const std::string path = used->path();
  const auto process = Start("exec sleep 600", used->fd());
  used->Kill();
  AwaitEnd(*process);
  EXPECT_TRUE(used->IsEmpty());
  used.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_OK_AND_ASSIGN(auto later, (*cgroups)->Make(0));
  EXPECT_NE(later->path(), path);
  const auto next = Start("exit 3", later->fd());
  AwaitEnd(*next);
  EXPECT_EQ(next->Ended()->code, 3);
}

TEST_F(RankProcessTest, ACgroupThatARankDividedServesNoOther) {
  auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(auto used, (*cgroups)->Make(0));
  const std::string path = used->path();
  ASSERT_EQ(::mkdir((path + "/below").c_str(), 0755), 0);
  used.reset();
  ASSERT_OK_AND_ASSIGN(const auto later, (*cgroups)->Make(0));
  EXPECT_NE(later->path(), path);
  EXPECT_EQ(::rmdir((path + "/below").c_str()), 0);
  EXPECT_EQ(::rmdir(path.c_str()), 0);
}

TEST_F(RankProcessTest, ACgroupThatIsThereAlreadyIsNoRanks) {
  auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(const auto first, (*cgroups)->Make(0));
  const size_t number = first->path().rfind('.') + 1;
  const std::string taken =
      first->path().substr(0, number) + std::to_string(std::stoi(first->path().substr(number)) + 1);
  // As an earlier agent leaves one that does not empty: it was killed, and kills what begins in it.
  ASSERT_EQ(::mkdir(taken.c_str(), 0755), 0);
  std::ofstream(taken + "/cgroup.kill") << "1";
  ASSERT_OK_AND_ASSIGN(const auto later, (*cgroups)->Make(0));
  EXPECT_NE(later->path(), taken);
  const auto next = Start("exit 3", later->fd());
  AwaitEnd(*next);
  EXPECT_EQ(next->Ended()->code, 3);
  EXPECT_EQ(::rmdir(taken.c_str()), 0);
}

TEST_F(RankProcessTest, CgroupsGoWithTheAgent) {
  auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(auto used, (*cgroups)->Make(0));
  const std::string path = used->path();
  used.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  (*cgroups).reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RankProcessTest, AnAgentThatStartsEndsWhatIsLeftInItsCgroups) {
  const std::string name = "test-" + std::to_string(::getpid());
  auto cgroups = RankCgroups::Open(name);
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  ASSERT_OK_AND_ASSIGN(auto cgroup, (*cgroups)->Make(0));
  const auto process = Start("exec sleep 600", cgroup->fd());
  EXPECT_OK(RankCgroups::Open(name));
  AwaitEnd(*process);
  EXPECT_EQ(process->Ended()->signal, SIGKILL);
}

TEST_F(RankProcessTest, WhatIsInAnAgentsCgroupsIsFoundWhateverItCarriesAndHoweverDeepItIs) {
  const std::string name = "test-" + std::to_string(::getpid());
  const auto folder = RankCgroups::OwnFolder();
  if (!folder.ok()) GTEST_SKIP() << folder.status().message();
  auto cgroups = RankCgroups::OpenAt(*folder, name);
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  EXPECT_THAT(RankCgroups::ProcessesBelow(*folder, name), ::testing::IsEmpty());
  ASSERT_OK_AND_ASSIGN(auto cgroup, (*cgroups)->Make(0));
  const auto here = Start("exec env -i sleep 600 >/dev/null 2>&1", cgroup->fd());
  const auto deeper = Start("exec env -i sleep 600 >/dev/null 2>&1");
  const std::string below = cgroup->path() + "/below";
  ASSERT_EQ(::mkdir(below.c_str(), 0755), 0);
  std::ofstream(below + "/cgroup.procs") << deeper->pid();
  EXPECT_THAT(RankCgroups::ProcessesBelow(*folder, name),
              ::testing::UnorderedElementsAre(Identify(here->pid()), Identify(deeper->pid())));
  EXPECT_THAT(RankCgroups::ProcessesBelow(*folder, name + "0"), ::testing::IsEmpty());
  cgroup->Kill();
  AwaitEnd(*here);
  AwaitEnd(*deeper);
  EXPECT_THAT(RankCgroups::ProcessesBelow(*folder, name), ::testing::IsEmpty());
  while (::rmdir(below.c_str()) != 0 && errno == EBUSY) {
  }
}

TEST_F(RankProcessTest, AForkBombStaysWithinItsCgroup) {
  const auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  if ((*cgroups)->most_processes() == 0) GTEST_SKIP() << "no pids controller of cgroup v2 here";
  ASSERT_OK_AND_ASSIGN(auto cgroup, (*cgroups)->Make(0));
  const auto number = [&](const char* file) {
    std::ifstream in(cgroup->path() + "/" + file);
    uint64_t value = 0;
    in >> value;
    return value;
  };
  EXPECT_EQ(number("pids.max"), (*cgroups)->most_processes());
  // A smaller one, which this machine can afford to see reached; four times that, if it does not
  // hold.
  constexpr uint64_t kBound = 50;
  std::ofstream(cgroup->path() + "/pids.max") << kBound << std::flush;
  const auto process =
      Start("i=0; while [ $i -lt 200 ]; do (exec sleep 600) & i=$((i + 1)); done; sleep 600",
            cgroup->fd());
  AwaitEnd(*process);  // the shell gives up when it cannot fork
  EXPECT_NE(process->Ended()->code, 0);
  EXPECT_GT(number("pids.current"), kBound / 2);
  EXPECT_LE(number("pids.current"), kBound);
  cgroup->Kill();
}

TEST_F(RankProcessTest, AProgramBesideARankMayHaveFewProcessesAlsoInACgroupThatServesAgain) {
  const auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  if ((*cgroups)->most_processes() == 0) GTEST_SKIP() << "no pids controller of cgroup v2 here";
  const auto bound_of = [](const RankCgroup& cgroup) {
    std::ifstream in(cgroup.path() + "/pids.max");
    uint64_t value = 0;
    in >> value;
    return value;
  };
  std::string path;
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_OK_AND_ASSIGN(const auto beside, (*cgroups)->MakeBeside());
    EXPECT_EQ(bound_of(*beside), RankCgroups::kProcessesBeside);
    if (turn == 0) path = beside->path();
    EXPECT_EQ(beside->path(), path) << "the one that was left empty";
  }
  ASSERT_OK_AND_ASSIGN(const auto cgroup, (*cgroups)->Make(0));
  EXPECT_EQ(cgroup->path(), path);
  EXPECT_EQ(bound_of(*cgroup), (*cgroups)->most_processes());
}

TEST_F(RankProcessTest, TheKernelEndsARankThatNeedsMoreMemoryThanItMay) {
  const auto cgroups = Cgroups();
  if (!cgroups.ok()) GTEST_SKIP() << cgroups.status().message();
  if (!(*cgroups)->can_limit_memory()) {
    GTEST_SKIP() << "no memory controller of cgroup v2 here";
  }
  constexpr uint64_t kLimit = 32u << 20;
  ASSERT_OK_AND_ASSIGN(auto cgroup, (*cgroups)->Make(kLimit));
  // tail keeps the line that it reads.
  const auto process =
      Start("head -c 200000000 /dev/zero | tail >/dev/null; sleep 600", cgroup->fd());
  AwaitEnd(*process);
  EXPECT_EQ(process->Ended()->signal, SIGKILL);
  ASSERT_TRUE(cgroup->OutOfMemoryAt().has_value());
  EXPECT_GT(*cgroup->OutOfMemoryAt(), kLimit / 2);
  EXPECT_LE(*cgroup->OutOfMemoryAt(), kLimit);
}

TEST_F(RankProcessTest, AStartThatWasGivenUpBeforeItWasBornNeverRuns) {
  LaunchWatch watch;
  watch.Kill();
  EXPECT_THAT(LaunchProcess(Shell("echo ran > ran"), &watch),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "ran"));
}

TEST_F(RankProcessTest, AStartThatIsGivenUpWhileItIsMadeLeavesNoProcess) {
  // At every moment of it; whatever began before is dead, and reaped, when the call returns.
  for (int i = 0; i < 200; ++i) {
    LaunchWatch watch;
    std::thread killer([&] {
      absl::SleepFor(absl::Microseconds(10 * i));
      watch.Kill();
    });
    absl::StatusOr<StartedProcess> process = LaunchProcess(Shell("exec sleep 1000"), &watch);
    killer.join();
    if (!process.ok()) {
      EXPECT_THAT(process.status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
      EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << i;
      continue;
    }
    EXPECT_FALSE(watch.killed()) << "it ran already";
    const RankProcess ended(*std::move(process), children_);  // kills it
  }
}

}  // namespace
}  // namespace muster::worker
