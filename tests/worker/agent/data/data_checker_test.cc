#include "worker/agent/data/data_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "tests/support/held_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::TempDir;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Scripts: one that says what it is called, and one that ends when it is told to.
constexpr char kHangs[] = "echo $$ > $HERE/pid.tmp; mv $HERE/pid.tmp $HERE/pid; exec sleep 1000";
constexpr char kWaits[] =
    "touch $HERE/begun-$$; while [ ! -e $HERE/go ]; do sleep 0.02; done; echo '{\"ok\": true}'";

class DataCheckerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = EventLoop::Create(clock_);
    ASSERT_OK(loop);
    loop_ = *std::move(loop);
  }

  // Looks are made by this shell script, in a folder of their own, with the job in job.json.
  void Start(const std::string& script, absl::Duration silence = absl::Seconds(60)) {
    Start(script, DataCheckerOptions{.silence = silence});
  }
  void Start(const std::string& script, DataCheckerOptions options) {
    options.program = dir_ / "muster-data";
    std::ofstream(options.program) << "#!/bin/sh\n" << script << "\n";
    ::chmod(options.program.c_str(), 0755);
    options.folder = dir_ / "looks";
    options.environment = {"PATH=/usr/bin:/bin", "HERE=" + dir_.path()};
    options.look_every = absl::Milliseconds(10);
    checker_ = std::make_unique<DataChecker>(
        *loop_, PosixFileSystem(), children_, std::move(options), [this] {
          seen_.clear();
          const v1::DataReport report = checker_->Report();
          for (const v1::DataReport::Verdict& verdict : report.verdicts())
            seen_[verdict.key()] = verdict;
        });
  }
  void Ask(const std::string& key, uint64_t number = 1, const std::string& spec = "{}") {
    v1::CheckData check;
    check.set_key(key);
    check.set_number(number);
    check.set_spec_json(spec);
    checker_->Check(check);
  }
  void RunUntil(const std::function<bool()>& done) {
    int looks = 0;
    const std::function<void()> look = [&] {
      const bool never = ++looks > 12'000;
      EXPECT_FALSE(never) << "it never came to that";
      if (never || done()) return loop_->Quit();
      loop_->After(absl::Milliseconds(5), look);
    };
    loop_->After(absl::ZeroDuration(), look);
    loop_->Run();
  }
  v1::DataReport::Verdict LookAt(const std::string& key) {
    Ask(key);
    RunUntil([&] { return seen_.count(key) != 0; });
    return seen_[key];
  }
  // That a look has written to this file, once it is there.
  pid_t Pid(const std::string& name = "pid") {
    RunUntil([&] { return Exists(name); });
    pid_t pid = 0;
    EXPECT_TRUE(absl::SimpleAtoi(PosixFileSystem().ReadFile(dir_ / name, 100).value_or(""), &pid));
    return pid;
  }
  bool IsGone(pid_t pid) {
    children_.ReapOrphans();
    return ::kill(pid, 0) != 0;
  }
  bool Exists(const std::string& name) { return std::filesystem::exists(dir_ / name); }
  size_t Begun() {
    size_t begun = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      begun += entry.path().filename().string().rfind("begun-", 0) == 0;
    return begun;
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_;
  ChildProcesses children_;
  std::unique_ptr<DataChecker> checker_;
  std::map<std::string, v1::DataReport::Verdict> seen_;
};

TEST_F(DataCheckerTest, AReportOfSoundDataIsTaken) {
  Start(
      "cp job.json $HERE/seen; echo \"$@\" > $HERE/words\n"
      "echo '{\"ok\": true, \"fingerprint\": \"abc\", \"seconds\": 0.1}'");
  Ask("k", 7, "{\"the\": \"job\"}");
  RunUntil([&] { return seen_.count("k") != 0; });
  EXPECT_EQ(seen_["k"].fault(), "");
  EXPECT_EQ(seen_["k"].fingerprint(), "abc");
  EXPECT_EQ(seen_["k"].number(), 7u);
  EXPECT_EQ(PosixFileSystem().ReadFile(dir_ / "seen", 1000).value_or(""), "{\"the\": \"job\"}");
  EXPECT_EQ(PosixFileSystem().ReadFile(dir_ / "words", 1000).value_or(""),
            "preflight -f job.json\n");
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "looks")) << "its folder is gone";
}

TEST_F(DataCheckerTest, AReportOfAFaultIsTaken) {
  Start(
      "echo '{\"ok\": false, \"fault\": \"missing\", \"error\": \"/data is not there\"}'; exit 1");
  const v1::DataReport::Verdict verdict = LookAt("k");
  EXPECT_EQ(verdict.fault(), "missing");
  EXPECT_EQ(verdict.error(), "/data is not there");
}

TEST_F(DataCheckerTest, AFaultThatNobodyKnowsIsAnother) {
  Start("echo '{\"ok\": false, \"fault\": \"strange\", \"error\": \"e\"}'; exit 1");
  EXPECT_EQ(LookAt("k").fault(), "other");
}

TEST_F(DataCheckerTest, WhatIsNoReportIsSaidToBeNone) {
  Start("echo 'garbage {]'; echo 'first' >&2; echo 'no such command' >&2; exit 2");
  const v1::DataReport::Verdict verdict = LookAt("k");
  EXPECT_EQ(verdict.fault(), "other");
  EXPECT_EQ(verdict.error(),
            "muster-data preflight ended with code 2 and no report: no such command");
}

TEST_F(DataCheckerTest, NoReportOfAProgramThatASignalEndsIsTaken) {
  Start("echo '{\"ok\": true}'; kill -SEGV $$");
  const v1::DataReport::Verdict verdict = LookAt("k");
  EXPECT_EQ(verdict.fault(), "other");
  EXPECT_THAT(verdict.error(), HasSubstr("was ended by signal 11"));
}

TEST_F(DataCheckerTest, AProgramThatCannotBeRunIsSaid) {
  Start("true");
  std::filesystem::remove(dir_ / "muster-data");
  const v1::DataReport::Verdict verdict = LookAt("k");
  EXPECT_EQ(verdict.fault(), "other");
  EXPECT_THAT(verdict.error(), HasSubstr("muster-data cannot be run"));
}

TEST_F(DataCheckerTest, OneThatHangsIsKilledWithAllThatItStarted) {
  Start("sleep 1000 & echo $! > $HERE/child.tmp; mv $HERE/child.tmp $HERE/child; wait",
        absl::Seconds(5));
  const v1::DataReport::Verdict verdict = LookAt("k");
  EXPECT_EQ(verdict.fault(), "unavailable");
  EXPECT_THAT(verdict.error(), HasSubstr("does their file system hang?"));
  ASSERT_TRUE(Exists("child"));
  const pid_t child = Pid("child");
  RunUntil([&] { return IsGone(child); });
}

TEST_F(DataCheckerTest, OneThatSaysSomethingNowAndThenMayTakeItsTime) {
  Start("for i in 1 2 3 4 5 6 7 8 9 10; do echo index >&2; sleep 0.6; done; echo '{\"ok\": true}'",
        absl::Seconds(5));
  EXPECT_EQ(LookAt("k").fault(), "");
}

TEST_F(DataCheckerTest, OneThatWritesWithoutEndIsKilled) {
  Start("exec yes");
  const v1::DataReport::Verdict verdict = LookAt("k");
  EXPECT_EQ(verdict.fault(), "other");
  EXPECT_THAT(verdict.error(), HasSubstr("writes without end"));
}

TEST_F(DataCheckerTest, AFewRunAtATimeAndTheOthersInTheirTurn) {
  Start(kWaits);
  for (int i = 0; i < 5; ++i) Ask(absl::StrCat("k", i));
  RunUntil([&] { return Begun() == DataChecker::kAtOnce; });
  std::ofstream(dir_ / "go") << "";
  RunUntil([&] { return seen_.size() == 5; });
  EXPECT_EQ(Begun(), 5u);
}

// The indexes of large data take hours.
TEST_F(DataCheckerTest, LooksThatTakeLongLeaveTheirPlacesToOthers) {
  Start(absl::StrCat("grep -q slow job.json || { echo '{\"ok\": true}'; exit; }\n",
                     "touch $HERE/begun-$$; while :; do echo index >&2; sleep 0.05; done"),
        {.quick = absl::Seconds(1)});
  Ask("slow-1", 1, "slow");
  Ask("slow-2", 1, "slow");
  EXPECT_EQ(LookAt("small").fault(), "");
  EXPECT_THAT(seen_, SizeIs(1)) << "the others go on";
}

TEST_F(DataCheckerTest, OfManyThatTakeLongOneThatNobodyAsksAboutGivesWay) {
  Start(absl::StrCat("grep -q slow job.json || { echo '{\"ok\": true}'; exit; }\n",
                     "touch $HERE/begun-$$; while :; do echo index >&2; sleep 0.5; done"),
        {.quick = absl::Milliseconds(300)});
  constexpr size_t kMost = DataChecker::kMaxLooks;
  for (size_t i = 0; i <= kMost; ++i) Ask(absl::StrCat("slow-", i), 1, "slow");
  RunUntil([&] { return Begun() == kMost; });
  const absl::Time full = clock_.Now();
  RunUntil([&] { return clock_.Now() - full > absl::Seconds(1); });
  EXPECT_EQ(Begun(), kMost);
  EXPECT_THAT(seen_, SizeIs(0));
  checker_->OnSessionDown();
  for (size_t i = 1; i < kMost; ++i) Ask(absl::StrCat("slow-", i), 1, "slow");
  EXPECT_EQ(LookAt("small").fault(), "");
  EXPECT_EQ(Begun(), kMost);
}

TEST_F(DataCheckerTest, AQuestionThatIsAskedAgainMeanwhileGetsTheOneAnswer) {
  Start(kWaits);
  Ask("k", 1);
  RunUntil([&] { return Begun() == 1; });
  Ask("k", 2);
  std::ofstream(dir_ / "go") << "";
  RunUntil([&] { return seen_.count("k") != 0; });
  EXPECT_EQ(seen_["k"].number(), 2u);
  EXPECT_EQ(Begun(), 1u);
}

TEST_F(DataCheckerTest, BeyondItsQueueQuestionsAreAnsweredAtOnce) {
  Start("exec sleep 1000");
  const size_t most = DataChecker::kAtOnce + DataChecker::kMaxQueued;
  for (size_t i = 0; i < most; ++i) Ask(absl::StrCat("k", i));
  EXPECT_THAT(seen_, SizeIs(0));
  Ask("one more");
  EXPECT_THAT(seen_["one more"].error(), HasSubstr("too many data"));
}

TEST_F(DataCheckerTest, WhatNobodyAsksAboutAnyMoreIsEnded) {
  Start(kHangs);
  Ask("k");
  const pid_t pid = Pid();
  checker_->Clear();
  RunUntil([&] { return IsGone(pid); });
  EXPECT_THAT(checker_->Report().verdicts(), SizeIs(0));
  EXPECT_THAT(seen_, SizeIs(0));
}

// Numbers of questions begin anew with each stream.
TEST_F(DataCheckerTest, ALookGoesOnWhenTheStreamBreaksAndIsTakenUpAgain) {
  Start(kWaits);
  Ask("k", 40);
  RunUntil([&] { return Begun() == 1; });
  checker_->OnSessionDown();
  checker_->OnSessionDown();
  Ask("k", 1);
  std::ofstream(dir_ / "go") << "";
  RunUntil([&] { return seen_.count("k") != 0; });
  EXPECT_EQ(seen_["k"].fault(), "");
  EXPECT_EQ(seen_["k"].number(), 1u);
  EXPECT_EQ(Begun(), 1u);
}

TEST_F(DataCheckerTest, WhatComesOfALookThatNobodyTookUpIsNotReported) {
  Start(kWaits);
  Ask("k", 40);
  RunUntil([&] { return Begun() == 1; });
  checker_->OnSessionDown();
  std::ofstream(dir_ / "go") << "";
  RunUntil([&] { return std::filesystem::is_empty(dir_ / "looks"); });
  EXPECT_THAT(checker_->Report().verdicts(), SizeIs(0));
  EXPECT_EQ(LookAt("k").number(), 1u);
  EXPECT_EQ(Begun(), 2u) << "its answer was of another stream";
}

TEST_F(DataCheckerTest, ALookThatNobodyTakesUpIsEndedAfterAWhile) {
  Start(kHangs, {.unasked = absl::Milliseconds(300)});
  Ask("k");
  const pid_t pid = Pid();
  checker_->OnSessionDown();
  EXPECT_FALSE(IsGone(pid));
  RunUntil([&] { return IsGone(pid); });
  EXPECT_THAT(seen_, SizeIs(0));
}

// With looks that do not die of SIGKILL.
class HungDataTest : public DataCheckerTest {
 protected:
  void Hold(pid_t pid) {
    ASSERT_TRUE(held_.Hold(pid)) << "this test must be allowed to trace its own processes";
  }

  ::muster::testing::HeldProcess held_;
};

// Else it would be an orphan, and so taken for what a rank left.
TEST_F(HungDataTest, WhatDoesNotDieStaysALeader) {
  Start(kHangs);
  Ask("k");
  const pid_t pid = Pid();
  Hold(pid);
  checker_->Clear();
  for (int i = 0; i < 2; ++i) {
    const std::optional<std::vector<pid_t>> orphans = children_.ReapOrphans();
    ASSERT_TRUE(orphans.has_value());
    EXPECT_THAT(*orphans, Not(Contains(pid)));
    checker_->Clear();
  }
  held_.Release();
  RunUntil([&] { return IsGone(pid); });
}

TEST_F(HungDataTest, DataThatHangDoNotKeepOthersFromBeingLookedAt) {
  Start(absl::StrCat("grep -q hung job.json || { echo '{\"ok\": true}'; exit; }\n",
                     "touch $HERE/begun-$$; ", kHangs),
        absl::Seconds(2));
  Ask("hung", 1, "hung");
  const pid_t pid = Pid();
  Hold(pid);
  RunUntil([&] { return seen_.count("hung") != 0; });
  EXPECT_THAT(seen_["hung"].error(), HasSubstr("does their file system hang?"));
  const absl::Time killed = clock_.Now();
  RunUntil([&] { return clock_.Now() - killed > absl::Milliseconds(100); });
  for (uint64_t number = 2; number < 2 + 2 * DataChecker::kMaxLeftBehind; ++number) {
    Ask("hung", number, "hung");
    EXPECT_EQ(seen_["hung"].number(), number) << "at once";
    EXPECT_EQ(seen_["hung"].fault(), "unavailable");
    EXPECT_THAT(seen_["hung"].error(), HasSubstr("cannot be ended"));
  }
  EXPECT_EQ(Begun(), 1u);
  EXPECT_EQ(LookAt("other").fault(), "");
  // The file system is back.
  held_.Release();
  RunUntil([&] { return std::filesystem::is_empty(dir_ / "looks"); });
  Ask("hung", 100, "sound");
  RunUntil([&] { return seen_["hung"].number() == 100; });
  EXPECT_EQ(seen_["hung"].fault(), "");
}

TEST_F(DataCheckerTest, TheReportHasTheNewestVerdictsAndIsBounded) {
  Start("true");
  std::filesystem::remove(dir_ / "muster-data");
  for (size_t i = 0; i < DataChecker::kMaxVerdicts + 2; ++i) Ask(absl::StrCat("k", i), i + 1);
  EXPECT_THAT(seen_, SizeIs(DataChecker::kMaxVerdicts));
  EXPECT_EQ(seen_.count("k0") + seen_.count("k1"), 0u);
}

}  // namespace
}  // namespace muster::worker
