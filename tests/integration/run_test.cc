// `muster run` on a real Muster: it prints what the program prints, ends as the program ended, and
// says so when it was Muster that ended it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Minutes(1);

class RunWalk : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(2)); }
  void TearDown() override { cluster_.Down(); }

  ProcessResult Run(const std::string& script, const Words& flags = {}) {
    Words args = {"run", "--name", "walk"};
    args.insert(args.end(), flags.begin(), flags.end());
    for (const char* word : {"--", "sh", "-c"}) args.push_back(word);
    args.push_back(script);
    return cluster_.Cli(args);
  }
  // The same in the background; its output goes to the file "run.log".
  std::unique_ptr<Subprocess> Begin(const std::string& script) {
    return std::make_unique<Subprocess>(
        Words{BinDir() + "/muster", "run", "--name", "walk", "--", "sh", "-c", script},
        cluster_.environment(), cluster_.Path("run.log"));
  }
  std::string Content(const std::string& name) {
    std::ifstream in(cluster_.Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Cluster cluster_;
};

TEST_F(RunWalk, PrintsWhatTheProgramPrintsAndEndsAsItEnds) {
  const ProcessResult good = Run("echo to stdout; echo to stderr >&2; printf 'no newline'");
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_EQ(good.out, "to stdout\nno newline\n");
  EXPECT_THAT(good.err, HasSubstr("to stderr\n"));
  EXPECT_THAT(good.err, HasSubstr("submitted"));

  const ProcessResult bad = Run("echo last words; exit 7");
  EXPECT_EQ(bad.exit_code, 7) << bad.err;
  EXPECT_EQ(bad.out, "last words\n");
  EXPECT_THAT(bad.err, HasSubstr("FAILED"));

  EXPECT_EQ(Run("kill -USR1 $$").exit_code, 128 + SIGUSR1);
  EXPECT_EQ(Member(cluster_.Show(2), "attempts").size(), 1u) << "it is not tried again";
}

TEST_F(RunWalk, SeveralRanksAreToldApart) {
  const ProcessResult both = Run("echo I am $RANK", {"--ranks", "2"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("a1.r0 | I am 0\n"));
  EXPECT_THAT(both.out, HasSubstr("a1.r1 | I am 1\n"));
  const ProcessResult plain = Run("echo I am $RANK", {"--ranks", "2", "--prefix", "never"});
  EXPECT_THAT(plain.out, HasSubstr("I am 1\n"));
  EXPECT_THAT(plain.out, Not(HasSubstr("|")));
  EXPECT_EQ(Run("[ $RANK = 0 ] || exit 9; sleep 600", {"--ranks", "2"}).exit_code, 9)
      << "the rank that failed, not the one that was killed for it";
}

TEST_F(RunWalk, WhatMusterItselfIsTheCauseOfHasItsOwnExitCode) {
  const ProcessResult never = Run("true", {"--ranks", "64"});
  EXPECT_EQ(never.exit_code, 7) << never.err;
  EXPECT_EQ(Run("sleep 600", {"--max-run-time", "1s"}).exit_code, 10);
  EXPECT_EQ(cluster_.Cli({"run"}).exit_code, 2);
  EXPECT_EQ(cluster_.Cli({"run", "--", "no-such-program-here"}).exit_code, 10);
  const ProcessResult nobody =
      cluster_.Cli({"run", "--addr", "127.0.0.1:1", "--timeout", "1s", "--", "true"});
  EXPECT_EQ(nobody.exit_code, 5) << nobody.err;
}

TEST_F(RunWalk, CtrlCCancelsTheJobAndItsLastWordsAreHeard) {
  const auto run = Begin("trap 'echo bye; exit 3' TERM; touch " + cluster_.Path("up") +
                         "; while :; do sleep 0.05; done");
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return std::ifstream(cluster_.Path("up")).good(); }));
  run->Signal(SIGINT);
  ASSERT_TRUE(run->Wait(kPatience)) << Content("run.log");
  EXPECT_EQ(run->exit_code(), 130);
  EXPECT_THAT(Content("run.log"), HasSubstr("cancelling job 1"));
  EXPECT_THAT(Content("run.log"), HasSubstr("bye"));
  EXPECT_EQ(cluster_.State(1), "CANCELLED");
}

TEST_F(RunWalk, ASecondCtrlCLeavesAtOnce) {
  const auto run =
      Begin("trap '' TERM; touch " + cluster_.Path("up") + "; while :; do sleep 0.05; done");
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return std::ifstream(cluster_.Path("up")).good(); }));
  run->Signal(SIGINT);
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return cluster_.State(1) == "STOPPING"; }))
      << Content("run.log");
  run->Signal(SIGINT);
  ASSERT_TRUE(run->Wait(kPatience)) << Content("run.log");
  EXPECT_EQ(run->exit_code(), 130);
  EXPECT_EQ(cluster_.WaitForEnd(1), "CANCELLED");
}

TEST_F(RunWalk, LogsOfATimeAreThoseThatWereWrittenInIt) {
  const std::string go = cluster_.Path("go");
  const auto run = Begin("echo early; until [ -e " + go + " ]; do sleep 0.05; done; echo late");
  ASSERT_TRUE(
      WaitUntil(kPatience, [&] { return Content("run.log").find("early") != std::string::npos; }));
  absl::SleepFor(absl::Seconds(2));
  const std::string between =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  absl::SleepFor(absl::Seconds(1));
  std::ofstream(go) << "";
  ASSERT_TRUE(run->Wait(kPatience)) << Content("run.log");
  EXPECT_EQ(cluster_.Cli({"logs", "walk", "--since", between}).out, "late\n");
  EXPECT_EQ(cluster_.Cli({"logs", "walk", "--until", between}).out, "early\n");
  EXPECT_EQ(cluster_.Cli({"logs", "walk", "--since", "1h"}).out, "early\nlate\n");
  EXPECT_EQ(cluster_.Cli({"logs", "walk", "--until", "1h"}).out, "");
  const ProcessResult dated = cluster_.Cli({"logs", "walk", "--timestamps", "--since", between});
  EXPECT_THAT(dated.out, ::testing::MatchesRegex("20..-..-.. ..:..:.. late\n"));
  EXPECT_EQ(cluster_.Cli({"logs", "walk", "--since", "1h", "--until", "2h"}).exit_code, 2);
  EXPECT_EQ(cluster_.Cli({"logs", "walk", "-f", "--until", "1h"}).exit_code, 2);
}

TEST_F(RunWalk, SaysWhatItWaitsForAndOutlivesTheController) {
  // Both slots are taken, so the next one waits.
  const std::string go = cluster_.Path("go");
  const std::string until = absl::StrCat("until [ -e ", go, " ]; do sleep 0.05; done");
  ASSERT_EQ(cluster_.Cli({"submit", "--ranks", "2", "--", "sh", "-c", until}).exit_code, 0);
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return cluster_.State(1) == "RUNNING"; }));
  const auto run = Begin("echo here at last");
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return Content("run.log").find("job 2 waits: needs 1 CPU slot") != std::string::npos;
  })) << Content("run.log");
  ASSERT_EQ(::kill(cluster_.DaemonProcess("musterd").pid, SIGKILL), 0);
  std::ofstream(go) << "";
  ASSERT_TRUE(run->Wait(absl::Minutes(2))) << Content("run.log");
  EXPECT_EQ(run->exit_code(), 0) << Content("run.log");
  EXPECT_THAT(Content("run.log"), HasSubstr("here at last\n"));
}

}  // namespace
}  // namespace muster::testing
