// Ctrl-C at `muster run`, against a service without a controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/cli/cli_run.h"
#include "tests/cli/fake_job_service.h"
#include "tests/support/subprocess.h"

namespace muster::cli::testing {
namespace {

using muster::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(1);

class RunInterruptTest : public ::testing::Test {
 protected:
  RunInterruptTest() {
    service_.Start();
    run_.env()["MUSTER_ADDR"] = service_.address();
    run_.env()["MUSTER_TOKEN"] = FakeJobService::kToken;
    service_.PutJob(MakeJob(7, "sleep", v1::RUNNING));
  }
  ~RunInterruptTest() override {
    if (!thread_.joinable()) return;
    service_.PutJob(MakeJob(7, "sleep", v1::CANCELLED));
    thread_.join();
  }

  void Begin() {
    thread_ = std::thread([this] { result_ = run_({"run", "--timeout", "5m", "--", "sleep"}); });
  }
  // Returns when `muster run` reads the job's output.
  void BeginAndRead() {
    Begin();
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return service_.log_requests().size() == 1; }));
  }
  void Interrupt() { ::kill(::getpid(), SIGINT); }
  CliResult End() {
    thread_.join();
    return result_;
  }

  FakeJobService service_;
  CliRun run_;
  std::thread thread_;
  CliResult result_;
};

TEST_F(RunInterruptTest, TheCancelIsAskedForAgainWhileNobodyAnswers) {
  service_.FailChanges({absl::UnavailableError("starting"), absl::UnavailableError("starting")});
  ASSERT_NO_FATAL_FAILURE(BeginAndRead());
  Interrupt();
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return service_.cancels().size() == 3; }));
  service_.PutJob(MakeJob(7, "sleep", v1::CANCELLED));
  const CliResult result = End();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted: cancelling job 7"));
  EXPECT_EQ(service_.cancels().size(), 3u);
}

TEST_F(RunInterruptTest, ACancelThatFailsSaysThatTheJobMayStillRun) {
  service_.FailChanges({absl::PermissionDeniedError("the token was withdrawn")});
  ASSERT_NO_FATAL_FAILURE(BeginAndRead());
  Interrupt();
  const CliResult result = End();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("job 7 may still run: the token was withdrawn"),
                                HasSubstr("`muster cancel 7`")));
}

TEST_F(RunInterruptTest, TheSecondOneIsHeardWhileTheCancelIsAskedFor) {
  service_.FailChanges(std::vector<absl::Status>(10'000, absl::UnavailableError("starting")));
  ASSERT_NO_FATAL_FAILURE(BeginAndRead());
  Interrupt();
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return !service_.cancels().empty(); }));
  Interrupt();
  const CliResult result = End();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("job 7 may still run\n"), HasSubstr("`muster cancel 7`")));
}

TEST_F(RunInterruptTest, OneWhileTheJobIsSubmittedSaysHowToFindIt) {
  service_.FailSubmits(std::vector<absl::Status>(10'000, absl::UnavailableError("starting")));
  Begin();
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return !service_.submits().empty(); }));
  Interrupt();
  const CliResult result = End();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("job sleep may have been submitted, and may run"),
                    HasSubstr("--idempotency-key " + service_.submits()[0].idempotency_key())));
}

TEST_F(RunInterruptTest, ARepeatWithTheSameKeyStaysWithTheSameJob) {
  service_.PutJob(MakeJob(7, "sleep", v1::SUCCEEDED));
  const CliResult first = run_({"run", "--idempotency-key", "mine", "--", "sleep"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(service_.submits()[0].idempotency_key(), "mine");
  const CliResult again = run_({"run", "--idempotency-key", "mine", "--", "sleep"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("was submitted before with this key"));
}

// A default of this release is no wish of the job: a repeat from a newer one is the same job, and a
// program that says nothing of checkpoints is bound to no checkpoint root.
TEST_F(RunInterruptTest, TheJobIsSentAsItWasWritten) {
  service_.PutJob(MakeJob(7, "sleep", v1::SUCCEEDED));
  const CliResult result = run_({"run", "--", "sleep"});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::JobSpec sent = service_.submits()[0].spec();
  EXPECT_FALSE(sent.has_checkpoint());
  EXPECT_FALSE(sent.has_placement());
  EXPECT_EQ(sent.command().argv(0), "sleep");
}

}  // namespace
}  // namespace muster::cli::testing
