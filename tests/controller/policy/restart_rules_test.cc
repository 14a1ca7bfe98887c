#include "controller/policy/restart_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;

Job LostBy(FailureClass kind, uint32_t restarts_in_row = 0, int64_t last_step = 7) {
  Job job;
  job.settings = std::make_shared<const JobSettings>(World::Settings(1));
  auto attempt = std::make_shared<Attempt>();
  attempt->number = 1;
  attempt->failure_class = kind;
  attempt->cause = "the cause";
  attempt->last_step = last_step;
  attempt->ranks.resize(1);
  job.current = std::move(attempt);
  job.restarts_in_row = restarts_in_row;
  return job;
}

TEST(RestartRulesTest, PreemptionIsFreeAndImmediate) {
  const RestartDecision decision = DecideRestart(LostBy(FailureClass::kPreempted, 99));
  EXPECT_EQ(decision.input, JobInput::kClearedForRetry);
  EXPECT_FALSE(decision.charged);
  EXPECT_EQ(decision.wait, absl::ZeroDuration());
}

TEST(RestartRulesTest, TheBackoffDoublesUpToItsBound) {
  Job job = LostBy(FailureClass::kWorkerLost);
  JobSettings settings = World::Settings(1);
  settings.restart.max_restarts = 1000;
  job.settings = std::make_shared<const JobSettings>(settings);
  const int expected[] = {1, 2, 4, 8, 10, 10};
  for (uint32_t i = 0; i < 6; ++i) {
    job.restarts_in_row = i;
    EXPECT_EQ(DecideRestart(job).wait, absl::Seconds(expected[i])) << i;
    EXPECT_TRUE(DecideRestart(job).charged);
  }
  job.restarts_in_row = 999;
  EXPECT_EQ(DecideRestart(job).wait, absl::Seconds(10));
}

TEST(RestartRulesTest, TheBudgetIsSpentAfterMaxRestarts) {
  EXPECT_EQ(DecideRestart(LostBy(FailureClass::kHang, 2)).input, JobInput::kClearedForRetry);
  const RestartDecision decision = DecideRestart(LostBy(FailureClass::kHang, 3));
  EXPECT_EQ(decision.input, JobInput::kBudgetSpent);
  EXPECT_THAT(decision.message, HasSubstr("HANG: the cause"));
}

TEST(RestartRulesTest, DataAndMemoryErrorsAreFinal) {
  for (FailureClass kind : {FailureClass::kDataError, FailureClass::kOutOfMemory}) {
    EXPECT_EQ(DecideRestart(LostBy(kind)).input, JobInput::kNotRetryable);
  }
  Job bad_spec = LostBy(FailureClass::kStartFailed);
  EXPECT_EQ(DecideRestart(bad_spec).input, JobInput::kClearedForRetry);
  auto attempt = std::make_shared<Attempt>(*bad_spec.current);
  attempt->ranks[0].exit_code = 2;
  bad_spec.current = attempt;
  EXPECT_EQ(DecideRestart(bad_spec).input, JobInput::kNotRetryable);
}

TEST(RestartRulesTest, TheSameFailureAtTheSameStepTwiceInARowIsFinal) {
  Job job = LostBy(FailureClass::kNonFinite);
  job.past.push_back(job.current);
  const RestartDecision decision = DecideRestart(job);
  EXPECT_EQ(decision.input, JobInput::kNotRetryable);
  EXPECT_THAT(decision.message, HasSubstr("NON_FINITE twice in a row at step 7"));
  auto elsewhere = std::make_shared<Attempt>(*job.current);
  elsewhere->last_step = 8;
  job.current = elsewhere;
  EXPECT_EQ(DecideRestart(job).input, JobInput::kClearedForRetry);
  // A machine that dies twice at the same step says nothing of the job.
  Job killed = LostBy(FailureClass::kRankKilled);
  killed.past.push_back(killed.current);
  EXPECT_EQ(DecideRestart(killed).input, JobInput::kClearedForRetry);
}

}  // namespace
}  // namespace muster::controller
