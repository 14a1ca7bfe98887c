#include "worker/agent/rank_process.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/process_scan.h"
#include "worker/agent/rank_cgroup.h"

namespace muster::worker {
namespace {

using ::muster::testing::TempDir;

// Real processes of a real shell.
class RankProcessTest : public ::testing::Test {
 protected:
  std::unique_ptr<RankProcess> Start(const std::string& script, int cgroup_fd = -1) {
    RankCommand command;
    command.program = "/bin/sh";
    command.argv = {"sh", "-c", script};
    command.environment = {"PATH=/usr/bin:/bin"};
    command.directory = dir_.path();
    command.log_directory = dir_.path();
    command.link = false;
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
  Children children_;
};

TEST_F(RankProcessTest, WhatOutlivesItsStarterIsFoundWhateverItCallsItself) {
  const auto process = Start(
      "env -i setsid sh -c 'echo $$ > up; exec sleep 600' & "
      "until [ -s up ]; do sleep 0.01; done; cat up");
  AwaitEnd(*process);
  const pid_t left = std::stoi(Output());
  // It has no tag and no group of ours; a scan of /proc would pass it over.
  EXPECT_THAT(FindProcesses(process->pid(), dir_.path()), ::testing::IsEmpty());
  auto orphans = children_.ReapOrphans();
  ASSERT_TRUE(orphans.has_value());
  EXPECT_THAT(*orphans, ::testing::ElementsAre(left));
  ASSERT_EQ(::kill(left, SIGKILL), 0);
  while (!children_.ReapOrphans()->empty()) {
  }
  EXPECT_NE(::kill(left, 0), 0) << "reaped";
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

}  // namespace
}  // namespace muster::worker
