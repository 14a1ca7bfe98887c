#include "controller/autoscale/command_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

CommandScaler Shell(const std::string& script, absl::Duration deadline = absl::Minutes(1)) {
  return CommandScaler("gpu", {"/bin/sh", "-c", script}, deadline);
}

TEST(CommandScalerTest, TheProgramIsToldWhatIsWanted) {
  TempDir dir;
  CommandScaler scaler = Shell(absl::StrCat("env | grep ^MUSTER_ | sort > ", dir / "out"));
  ASSERT_TRUE(
      scaler.ScaleTo({.asked = 3, .wanted = 1, .leaving = {"gpu-2", "gpu-1"}, .staying = {"gpu-0"}})
          .ok());
  EXPECT_EQ(Read(dir / "out"),
            "MUSTER_LEAVING=gpu-2 gpu-1\nMUSTER_POOL=gpu\nMUSTER_STAYING=gpu-0\nMUSTER_WANTED=1\n"
            "MUSTER_WORKERS=3\n");
}

TEST(CommandScalerTest, WordsAreGivenAsTheyAre) {
  TempDir dir;
  CommandScaler scaler(
      "gpu", {"/bin/sh", "-c", absl::StrCat("echo \"$1\" > ", dir / "out"), "sh", "$(reboot) ; *"});
  ASSERT_TRUE(scaler.ScaleTo({}).ok());
  EXPECT_EQ(Read(dir / "out"), "$(reboot) ; *\n");
}

TEST(CommandScalerTest, AnotherExitThanZeroIsAFailureWithWhatItSaid) {
  const absl::Status status = Shell("echo quota of zone a; exit 3").ScaleTo({});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("exited with 3; it printed: quota of zone a"));
  EXPECT_THAT(std::string(Shell("kill -9 $$").ScaleTo({}).message()),
              HasSubstr("was ended by signal 9"));
}

TEST(CommandScalerTest, WhatItPrintsIsBounded) {
  const absl::Status status = Shell("head -c 3000000 /dev/zero | tr '\\0' x; exit 1").ScaleTo({});
  EXPECT_THAT(std::string(status.message()), HasSubstr("exited with 1"));
  EXPECT_LT(status.message().size(), 2000u);
}

TEST(CommandScalerTest, AProgramThatIsNotThereIsNamed) {
  const absl::Status status = CommandScaler("gpu", {"/no/such"}).ScaleTo({});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), StartsWith("command /no/such: does not start"));
}

// Waits until no process has that number.
void ExpectEnds(pid_t pid) {
  for (int i = 0; i < 600 && ::kill(pid, 0) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // A zombie that this container's first process has not taken yet has ended, too.
    if (Read(absl::StrCat("/proc/", pid, "/stat")).find(") Z ") != std::string::npos) return;
  }
  EXPECT_NE(::kill(pid, 0), 0) << pid;
}

TEST(CommandScalerTest, AtItsDeadlineItGoesWithWhatItStarted) {
  TempDir dir;
  CommandScaler scaler = Shell(absl::StrCat("sleep 1000 & echo $! > ", dir / "pid", "; wait"),
                               absl::Milliseconds(500));
  EXPECT_EQ(scaler.ScaleTo({}).code(), absl::StatusCode::kDeadlineExceeded);
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(Read(dir / "pid"), &pid));
  ExpectEnds(pid);
}

TEST(CommandScalerTest, WhatItLeavesRunningStaysAndDoesNotHoldUp) {
  TempDir dir;
  // The sleep holds the pipe open.
  CommandScaler scaler = Shell(absl::StrCat("sleep 1000 & echo $! > ", dir / "pid"));
  EXPECT_TRUE(scaler.ScaleTo({}).ok());
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(Read(dir / "pid"), &pid));
  ASSERT_EQ(::kill(pid, SIGKILL), 0) << "it was ended";
  ExpectEnds(pid);
}

TEST(CommandScalerTest, WhatItLeavesRunningGoesWhenItFails) {
  TempDir dir;
  CommandScaler scaler = Shell(absl::StrCat("sleep 1000 & echo $! > ", dir / "pid", "; exit 1"));
  EXPECT_FALSE(scaler.ScaleTo({}).ok());
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(Read(dir / "pid"), &pid));
  ExpectEnds(pid);
}

TEST(CommandScalerTest, StopEndsIt) {
  CommandScaler scaler = Shell("sleep 1000");
  std::thread stopper([&] { scaler.Stop(); });
  EXPECT_EQ(scaler.ScaleTo({}).code(), absl::StatusCode::kCancelled);
  stopper.join();
}

}  // namespace
}  // namespace muster::controller
