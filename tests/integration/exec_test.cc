// `muster exec` on a real Muster: a program beside a rank, in its environment, with pipes or a
// terminal; it ends with whoever goes first.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/unique_fd.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Minutes(1);

class ExecWalk : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(2));
    const Words submit = {"submit", "--name",  "base", "--ranks", "2",
                          "--env",  "HUE=red", "--",   "sleep",   "1000"};
    ASSERT_EQ(cluster_.Cli(submit).exit_code, 0);
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return cluster_.State(1) == "RUNNING"; }));
  }
  void TearDown() override { cluster_.Down(); }

  ProcessResult Exec(const std::string& script, const Words& flags = {}) {
    Words args = {"exec", "base"};
    args.insert(args.end(), flags.begin(), flags.end());
    for (const char* word : {"--", "sh", "-c"}) args.push_back(word);
    args.push_back(script);
    return cluster_.Cli(args);
  }
  // A shell's line on this machine, in which `muster` is the program.
  ProcessResult Shell(const std::string& line) {
    return RunProcess({"/bin/bash", "-c", absl::StrCat("PATH=", BinDir(), ":$PATH; ", line)},
                      cluster_.environment(), kPatience);
  }
  std::unique_ptr<Subprocess> Begin(const std::string& script) {
    return std::make_unique<Subprocess>(
        Words{BinDir() + "/muster", "exec", "base", "--", "sh", "-c", script},
        cluster_.environment(), cluster_.Path("exec.log"));
  }
  std::string Content(const std::string& name) {
    std::ifstream in(cluster_.Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // A program that says its number in the file "pid", and then waits.
  std::string Waiting() const {
    return absl::StrCat("echo $$ > ", cluster_.Path("pid"), "; while :; do sleep 0.1; done");
  }
  ProcessId Waiter() {
    int pid = 0;
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return absl::SimpleAtoi(Content("pid"), &pid); }));
    return IdentifyProcess(pid);
  }

  Cluster cluster_;
};

TEST_F(ExecWalk, RunsInTheEnvironmentOfTheRank) {
  const ProcessResult first = Exec("echo $HUE $RANK of $WORLD_SIZE; pwd > " +
                                   cluster_.Path("where") + "; echo oops >&2; exit 3");
  EXPECT_EQ(first.exit_code, 3) << first.err;
  EXPECT_EQ(first.out, "red 0 of 2\n");
  EXPECT_EQ(first.err, "oops\n");
  EXPECT_EQ(Exec("echo $RANK", {"--rank", "1"}).out, "1\n");
  EXPECT_EQ(Exec("tty -s; echo $?").out, "1\n");
  EXPECT_EQ(Exec("kill -TERM $$").exit_code, 128 + SIGTERM);
  EXPECT_EQ(Exec("cat").out, "") << "without -i there is no input";
  EXPECT_EQ(Exec("sleep 1000 & echo $! > " + cluster_.Path("pid") + "; echo begun").out, "begun\n")
      << "what it leaves is not waited for";
  const ProcessId left = Waiter();
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(left); })) << "it ends with it";
  EXPECT_EQ(Exec("yes & sleep 0.2").exit_code, 0) << "nor for the end of what that writes";
  EXPECT_THAT(cluster_.Cli({"audit"}).out, HasSubstr("job 1: exec beside rank 0 on worker-"));
}

TEST_F(ExecWalk, PassesInputOfAnySizeThrough) {
  const std::string data = cluster_.Path("data");
  const ProcessResult same =
      Shell("head -c 20000000 /dev/urandom > " + data + "; muster exec -i base -- cat < " + data +
            " | cmp - " + data + " && echo the same");
  EXPECT_EQ(same.out, "the same\n") << same.err;
  EXPECT_EQ(Shell("echo 1 2 | muster exec -i base -- wc -w").out, "2\n");
}

TEST_F(ExecWalk, HasATerminalOfItsOwn) {
  const ProcessResult shown = Shell(
      "script -qec \"stty rows 33 cols 101; muster exec -t base -- sh -c 'tty; stty size; echo "
      "\\$TERM; read word; echo got \\$word'\" /dev/null <<< hello");
  EXPECT_THAT(shown.out, HasSubstr("/dev/pts/")) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("33 101"));
  EXPECT_THAT(shown.out, HasSubstr("got hello"));
  const ProcessResult none = Shell("muster exec -t base -- true < /dev/null");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("standard input is no terminal"));
}

TEST_F(ExecWalk, EndsWithThePersonWhoAskedForIt) {
  const auto exec = Begin(Waiting());
  const ProcessId program = Waiter();
  exec->Signal(SIGKILL);
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(program); }));
  EXPECT_EQ(cluster_.State(1), "RUNNING") << "its rank goes on";
}

TEST_F(ExecWalk, EndsWithThePersonAlsoWhileItTakesNoInput) {
  const std::string data = cluster_.Path("data");
  Subprocess exec({"/bin/bash", "-c",
                   absl::StrCat("head -c 8000000 /dev/zero > ", data, "; exec ", BinDir(),
                                "/muster exec -i base -- sh -c 'echo $$ > ", cluster_.Path("pid"),
                                "; exec sleep 1000' < ", data)},
                  cluster_.environment(), cluster_.Path("exec.log"));
  const ProcessId program = Waiter();
  absl::SleepFor(absl::Seconds(2));  // until all that is between them is full
  exec.Signal(SIGINT);
  ASSERT_TRUE(exec.Wait(kPatience));
  EXPECT_EQ(exec.exit_code(), 130) << Content("exec.log");
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(program); }));
  EXPECT_EQ(Exec("echo next").out, "next\n");
}

TEST_F(ExecWalk, EndsWithItsRank) {
  const auto exec = Begin(Waiting());
  const ProcessId program = Waiter();
  ASSERT_EQ(cluster_.Cli({"cancel", "base"}).exit_code, 0);
  ASSERT_TRUE(exec->Wait(kPatience));
  EXPECT_NE(exec->exit_code(), 0);
  EXPECT_THAT(Content("exec.log"), HasSubstr("its rank has ended"));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(program); }));
  EXPECT_EQ(cluster_.WaitForEnd(1), "CANCELLED");
  const ProcessResult after = Exec("true");
  EXPECT_EQ(after.exit_code, 6) << after.err;
  EXPECT_THAT(after.err, HasSubstr("job 1 does not run now"));
}

TEST_F(ExecWalk, EndsWithTheControllersConnection) {
  const auto exec = Begin(Waiting());
  const ProcessId program = Waiter();
  ASSERT_EQ(::kill(cluster_.DaemonProcess("musterd").pid, SIGKILL), 0);
  ASSERT_TRUE(exec->Wait(kPatience));
  EXPECT_EQ(exec->exit_code(), 5) << Content("exec.log");
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !IsAlive(program); }));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return Exec("echo again").out == "again\n"; }));
}

// Beside exec, what a person takes along of a cluster that misbehaves.
TEST_F(ExecWalk, ABundleHasHowTheDaemonsWereStartedAndTheirMetrics) {
  const std::string out = cluster_.Path("bundle.tar");
  ASSERT_EQ(cluster_.Cli({"debug", "bundle", "--out", out}).exit_code, 0);
  const std::string all = Shell("tar -xOf " + out + " --wildcards '*/local/*'").out;
  EXPECT_THAT(all, HasSubstr("--allow-commands\n"));
  EXPECT_THAT(all, HasSubstr("\nmuster_controller_term "));
  EXPECT_THAT(all, HasSubstr("\nmuster_worker_"));
  EXPECT_THAT(all, HasSubstr("event=started"));
  EXPECT_THAT(Shell("tar -xOf " + out + " --wildcards '*/README.txt'").out,
              HasSubstr("Nothing is missing."));
}

TEST_F(ExecWalk, WhatCannotRunIsSaid) {
  const ProcessResult missing = cluster_.Cli({"exec", "base", "--", "no-such-program-here"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_THAT(missing.err, HasSubstr("no-such-program-here"));
  EXPECT_EQ(cluster_.Cli({"exec", "base", "--", "/etc/passwd"}).exit_code, 126);
  EXPECT_EQ(cluster_.Cli({"exec", "base", "--rank", "7", "--", "true"}).exit_code, 2);
  EXPECT_EQ(cluster_.Cli({"exec", "base"}).exit_code, 2);
  EXPECT_EQ(cluster_.Cli({"exec", "nobody", "--", "true"}).exit_code, 3);
}

// Where agents can make no cgroups, as in pods: no file system of them is mounted. Last: the mount
// namespace stays.
class ExecWithoutCgroups : public ExecWalk {
 protected:
  void SetUp() override {
    if (::unshare(CLONE_NEWNS) != 0) GTEST_SKIP() << "needs root, for a mount namespace";
    ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    std::ifstream mounts("/proc/self/mounts");
    std::string device, place, type, rest;
    while (mounts >> device >> place >> type && std::getline(mounts, rest)) {
      if (type != "cgroup2") continue;
      ASSERT_EQ(::umount2(place.c_str(), MNT_DETACH), 0) << place;
    }
    ExecWalk::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) ExecWalk::TearDown();
  }
};

// What it writes waits for the person, and its rank's end does not.
TEST_F(ExecWithoutCgroups, EndsWithItsRankAlsoWhileNobodyReads) {
  const std::string unread = cluster_.Path("unread");
  ASSERT_EQ(::mkfifo(unread.c_str(), 0600), 0);
  const UniqueFd reader(::open(unread.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Subprocess exec({"/bin/bash", "-c",
                   absl::StrCat("exec ", BinDir(), "/muster exec base -- sh -c 'yes & echo $$ > ",
                                cluster_.Path("pid"), "; exec sleep 1000' > ", unread)},
                  cluster_.environment(), cluster_.Path("exec.log"));
  const ProcessId program = Waiter();
  // Until nothing between the two takes more.
  absl::SleepFor(absl::Seconds(3));
  ASSERT_EQ(cluster_.Cli({"cancel", "base"}).exit_code, 0);
  EXPECT_EQ(cluster_.WaitForEnd(1), "CANCELLED");
  EXPECT_FALSE(IsAlive(program)) << "the rank's place is another's by now";
  exec.Signal(SIGKILL);
  EXPECT_TRUE(exec.Wait(kPatience));
}

}  // namespace
}  // namespace muster::testing
