#include "controller/policy/health/restart_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 42;
RestartDecision Decide(const Job& job) { return DecideRestart(Snapshot(), job, kSeed); }

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
  const RestartDecision decision = Decide(LostBy(FailureClass::kPreempted, 99));
  EXPECT_EQ(decision.input, JobInput::kClearedForRetry);
  EXPECT_FALSE(decision.charged);
  EXPECT_EQ(decision.wait, absl::ZeroDuration());
}

TEST(RestartRulesTest, ARootThatIsNotSeenIsFreeAndWaitedFor) {
  const RestartDecision decision = Decide(LostBy(FailureClass::kStorageUnavailable, 99));
  EXPECT_EQ(decision.input, JobInput::kClearedForRetry);
  EXPECT_FALSE(decision.charged);
  EXPECT_EQ(decision.wait, kStorageRetry);
  EXPECT_THAT(decision.message, HasSubstr("free of charge"));
}

TEST(RestartRulesTest, TheBackoffDoublesUpToItsBound) {
  Job job = LostBy(FailureClass::kWorkerLost);
  JobSettings settings = World::Settings(1);
  settings.restart.max_restarts = 1000;
  job.settings = std::make_shared<const JobSettings>(settings);
  const int expected[] = {1, 2, 4, 8, 10, 10};
  for (uint32_t i = 0; i < 6; ++i) {
    job.restarts_in_row = i;
    EXPECT_LE(Decide(job).wait, absl::Seconds(expected[i])) << i;
    EXPECT_GE(Decide(job).wait, absl::Seconds(expected[i]) * 0.75 - absl::Milliseconds(1)) << i;
    EXPECT_TRUE(Decide(job).charged);
  }
  job.restarts_in_row = 999;
  EXPECT_LE(Decide(job).wait, absl::Seconds(10));
}

TEST(RestartRulesTest, JobsThatWereLostTogetherComeBackApart) {
  Job job = LostBy(FailureClass::kWorkerLost, 2);
  std::set<absl::Duration> waits;
  for (uint64_t seed = 0; seed < 200; ++seed)
    waits.insert(DecideRestart(Snapshot(), job, seed).wait);
  EXPECT_GT(waits.size(), 100u);
  EXPECT_LT(*waits.begin(), absl::Seconds(3.1));
  EXPECT_GT(*waits.rbegin(), absl::Seconds(3.9));
  EXPECT_EQ(DecideRestart(Snapshot(), job, 7).wait, DecideRestart(Snapshot(), job, 7).wait);
}

Job WithBudgets(Job job, std::map<FailureClass, uint32_t> budgets) {
  JobSettings settings = *job.settings;
  settings.restart.budgets = std::move(budgets);
  job.settings = std::make_shared<const JobSettings>(std::move(settings));
  return job;
}

TEST(RestartRulesTest, AClassWithABudgetOfItsOwnIsCountedApart) {
  Job job = WithBudgets(LostBy(FailureClass::kHang, 3), {{FailureClass::kHang, 4}});
  job.charged = {{FailureClass::kHang, 3}};
  EXPECT_EQ(Decide(job).input, JobInput::kClearedForRetry) << "3 of its 4 are spent";
  EXPECT_THAT(Decide(job).message, HasSubstr("restart 4 of 4"));
  job.charged[FailureClass::kHang] = job.restarts_in_row = 4;
  EXPECT_EQ(Decide(job).input, JobInput::kNoProgressMade);
  EXPECT_THAT(Decide(job).message, HasSubstr("restart.budgets.hang: 4"));
  // The shared budget (3) is whole: none of the four restarts was charged to it.
  Job killed = WithBudgets(LostBy(FailureClass::kWorkerLost, 4), {{FailureClass::kHang, 4}});
  killed.charged = job.charged;
  EXPECT_THAT(Decide(killed).message, HasSubstr("restart 1 of 3"));
}

TEST(RestartRulesTest, ABudgetOfNoneStopsAtTheFirstFailure) {
  const Job job =
      WithBudgets(LostBy(FailureClass::kApplication), {{FailureClass::kApplication, 0}});
  EXPECT_EQ(Decide(job).input, JobInput::kBudgetSpent);
}

TEST(RestartRulesTest, OutOfMemoryIsTriedAgainWhereTheSpecAllows) {
  Job job = WithBudgets(LostBy(FailureClass::kOutOfMemory), {{FailureClass::kOutOfMemory, 2}});
  EXPECT_EQ(Decide(job).input, JobInput::kClearedForRetry);
  job.past.push_back(job.current);
  EXPECT_THAT(Decide(job).message, HasSubstr("OUT_OF_MEMORY twice in a row at step 7"));
}

TEST(RestartRulesTest, TheBudgetIsSpentAfterMaxRestarts) {
  EXPECT_EQ(Decide(LostBy(FailureClass::kWorkerLost, 2)).input, JobInput::kClearedForRetry);
  const RestartDecision decision = Decide(LostBy(FailureClass::kWorkerLost, 3));
  EXPECT_EQ(decision.input, JobInput::kBudgetSpent);
  EXPECT_THAT(decision.message, HasSubstr("WORKER_LOST: the cause"));
}

TEST(RestartRulesTest, DataAndMemoryErrorsAreFinal) {
  for (FailureClass kind : {FailureClass::kDataError, FailureClass::kOutOfMemory}) {
    EXPECT_EQ(Decide(LostBy(kind)).input, JobInput::kNotRetryable);
  }
  Job bad_spec = LostBy(FailureClass::kStartFailed);
  EXPECT_EQ(Decide(bad_spec).input, JobInput::kClearedForRetry);
  auto attempt = std::make_shared<Attempt>(*bad_spec.current);
  attempt->ranks[0].exit_code = 2;
  bad_spec.current = attempt;
  EXPECT_EQ(Decide(bad_spec).input, JobInput::kNotRetryable);
}

TEST(RestartRulesTest, AHangWithItsBudgetSpentMadeNoProgress) {
  const RestartDecision decision = Decide(LostBy(FailureClass::kHang, 3));
  EXPECT_EQ(decision.input, JobInput::kNoProgressMade);
  EXPECT_THAT(decision.message, HasSubstr("HANG: the cause; restarted 3 times in a row"));
  EXPECT_EQ(LookUp(JobState::kRecovering, decision.input).next, JobState::kFailed);
  EXPECT_EQ(LookUp(JobState::kRecovering, decision.input).reason, Reason::kNoProgress);
}

TEST(RestartRulesTest, TheSameFailureAtTheSameStepTwiceInARowIsFinal) {
  Job job = LostBy(FailureClass::kNonFinite);
  job.past.push_back(job.current);
  const RestartDecision decision = Decide(job);
  EXPECT_EQ(decision.input, JobInput::kNoProgressMade);
  EXPECT_THAT(decision.message, HasSubstr("NON_FINITE twice in a row at step 7"));
  auto elsewhere = std::make_shared<Attempt>(*job.current);
  elsewhere->last_step = 8;
  job.current = elsewhere;
  EXPECT_EQ(Decide(job).input, JobInput::kClearedForRetry);
  // What comes from outside twice at the same step says nothing of the job; a crash does.
  for (const int32_t signal : {9, 11}) {
    Job killed = LostBy(FailureClass::kRankKilled);
    auto attempt = std::make_shared<Attempt>(*killed.current);
    attempt->ranks[0].signal = signal;
    killed.current = attempt;
    killed.past.push_back(killed.current);
    EXPECT_EQ(Decide(killed).input,
              signal == 9 ? JobInput::kClearedForRetry : JobInput::kNoProgressMade);
  }
}

TEST(RestartRulesTest, AJobThatReportsNoStepsIsTriedAgainAsOftenAsItsBudgetAllows) {
  Job job = LostBy(FailureClass::kApplication, 1, /*last_step=*/0);
  job.past.push_back(job.current);
  EXPECT_EQ(Decide(job).input, JobInput::kClearedForRetry) << "both may have been anywhere";
}

TEST(RestartRulesTest, AWorkerThatMayFindItsDataAgainCouldTakeTheJobAndOneThatGaveThemUpCouldNot) {
  World world;
  world.AddWorker("a", 1);
  Worker& other = world.AddWorker("b", 1);
  Job job = LostBy(FailureClass::kApplication);
  JobSettings settings = *job.settings;
  settings.needs.data = "imagenet";
  job.settings = std::make_shared<const JobSettings>(settings);
  Attempt attempt = *job.current;
  attempt.ranks[0].worker = "a";
  job.current = std::make_shared<const Attempt>(attempt);
  job.past.push_back(job.current);
  for (const char* fault : {"unavailable", "missing", "broken"}) {
    DataView view{.number = 1, .answered = true, .seen_at = absl::Hours(1), .fault = fault};
    view.failures = 1;
    other.pulse.data = std::make_shared<const DataViews>(DataViews{{"imagenet", view}});
    EXPECT_EQ(DecideRestart(world.view(), job, kSeed).input, fault == std::string("broken")
                                                                 ? JobInput::kNoProgressMade
                                                                 : JobInput::kClearedForRetry)
        << fault;
  }
}

TEST(RestartRulesTest, TheSameFailureOnTheSameWorkerProvesNothingWhereAnotherCouldTakeTheJob) {
  World world;
  world.AddWorker("a", 1);
  Job job = LostBy(FailureClass::kApplication);
  Attempt attempt = *job.current;
  attempt.ranks[0].worker = "a";
  job.current = std::make_shared<const Attempt>(attempt);
  job.past.push_back(job.current);
  const auto decide = [&] { return DecideRestart(world.view(), job, kSeed).input; };
  EXPECT_EQ(decide(), JobInput::kNoProgressMade) << "there is no other worker";
  Worker& other = world.AddWorker("b", 1);
  EXPECT_EQ(decide(), JobInput::kClearedForRetry);
  other.cordoned = true;
  EXPECT_EQ(decide(), JobInput::kNoProgressMade);
  other.cordoned = false;
  attempt.ranks[0].worker = "b";
  job.current = std::make_shared<const Attempt>(attempt);
  EXPECT_EQ(decide(), JobInput::kNoProgressMade) << "it failed so on both";
}

Job WithoutProgram(const std::string& worker, uint32_t number = 1) {
  Job job = LostBy(FailureClass::kStartFailed, number - 1, /*last_step=*/0);
  Attempt attempt = *job.current;
  attempt.number = number;
  attempt.missing = Missing::kOnWorker;
  attempt.failed_rank = 0;
  attempt.ranks[0].worker = worker;
  job.current = std::make_shared<const Attempt>(attempt);
  return job;
}

// A worker without the right to read below the root failed a job six times, and it was given up.
TEST(RestartRulesTest, OneWorkersWordOnCheckpointsEndsNoJobThatAnotherCouldTake) {
  World world;
  world.AddWorker("a", 1);
  const auto on = [](Job job, const std::string& worker, uint32_t number) {
    auto attempt = std::make_shared<Attempt>(*job.current);
    attempt->number = number;
    attempt->ranks[0].worker = worker;
    job.current = std::move(attempt);
    return job;
  };
  for (const FailureClass kind : {FailureClass::kCheckpointFailed, FailureClass::kCorruption}) {
    Job job = on(LostBy(kind, 3), "a", 4);
    for (uint32_t i = 1; i <= 3; ++i) job.past.push_back(on(LostBy(kind), "a", i).current);
    const auto decide = [&] { return DecideRestart(world.view(), job, kSeed); };
    world.draft().EditWorker(1).cordoned = false;
    if (world.view().FindWorker("b") == nullptr) {
      EXPECT_EQ(decide().input, JobInput::kBudgetSpent) << "there is no other worker";
      world.AddWorker("b", 1);
    }
    EXPECT_EQ(decide().input, JobInput::kClearedForRetry);
    EXPECT_TRUE(decide().charged);
    EXPECT_THAT(decide().message, HasSubstr("no other worker has said so yet"));
    world.draft().EditWorker(2).cordoned = true;
    EXPECT_EQ(decide().input, JobInput::kBudgetSpent) << "it takes no work";
    world.draft().EditWorker(2).cordoned = false;
    job.past.push_back(job.current);
    job = on(std::move(job), "b", 5);
    job.restarts_in_row = 4;
    EXPECT_EQ(decide().input, JobInput::kBudgetSpent) << "a second one said so";
    job.requeued_after = 4;
    job.restarts_in_row = 0;
    EXPECT_EQ(decide().input, JobInput::kClearedForRetry) << "somebody wants it tried anew";
  }
  // The other one is busy, for weeks.
  Job job = LostBy(FailureClass::kCheckpointFailed, 3);
  absl::Duration waits;
  for (uint32_t number = 4; number < 4 + kMostRestartsBeyond; ++number) {
    job = on(std::move(job), "a", number);
    job.restarts_in_row = number - 1;
    const RestartDecision decision = DecideRestart(world.view(), job, kSeed);
    ASSERT_EQ(decision.input, JobInput::kClearedForRetry) << number;
    waits += decision.wait;
    job.past.push_back(job.current);
  }
  EXPECT_GT(waits, absl::Hours(18));
  EXPECT_LT(waits, absl::Hours(20));
  job = on(std::move(job), "a", 4 + kMostRestartsBeyond);
  job.restarts_in_row = 3 + kMostRestartsBeyond;
  EXPECT_EQ(DecideRestart(world.view(), job, kSeed).input, JobInput::kBudgetSpent);

  Job once = WithBudgets(on(LostBy(FailureClass::kCheckpointFailed), "a", 1),
                         {{FailureClass::kCheckpointFailed, 0}});
  EXPECT_EQ(DecideRestart(world.view(), once, kSeed).input, JobInput::kBudgetSpent)
      << "no restart at all is wanted";
}

// `muster submit -- pyhton train.py` was tried six times, for forty seconds.
TEST(RestartRulesTest, AProgramThatNoOtherWorkerMayHaveEndsTheJobAtOnce) {
  World world;
  world.AddWorker("a", 1);
  const Job job = WithoutProgram("a");
  const RestartDecision decision = DecideRestart(world.view(), job, kSeed);
  EXPECT_EQ(decision.input, JobInput::kNotRetryable);
  EXPECT_EQ(decision.message, "START_FAILED: the cause; no other worker could take the job");
  world.AddWorker("b", 1).facts.pool = "other";
  EXPECT_EQ(DecideRestart(world.view(), job, kSeed).input, JobInput::kNotRetryable);
}

TEST(RestartRulesTest, AProgramThatAnotherWorkerMayHaveIsLookedForThereAtOnce) {
  World world;
  for (const char* name : {"a", "b", "c"}) world.AddWorker(name, 1);
  Job job = WithoutProgram("a");
  RestartDecision decision = DecideRestart(world.view(), job, kSeed);
  EXPECT_EQ(decision.input, JobInput::kClearedForRetry);
  EXPECT_EQ(decision.wait, absl::ZeroDuration());
  EXPECT_TRUE(decision.charged);
  EXPECT_EQ(decision.message,
            "attempt 1 lost (START_FAILED: the cause); another worker may have it; restart 1 of 3 "
            "at once");
  // The others were full, and it came back to the same one.
  const std::shared_ptr<const Attempt> first = job.current;
  job = WithoutProgram("a", 2);
  job.past = {first};
  EXPECT_GT(DecideRestart(world.view(), job, kSeed).wait, absl::ZeroDuration());
  const std::shared_ptr<const Attempt> second = job.current;
  job = WithoutProgram("b", 3);
  job.past = {first, second};
  EXPECT_EQ(DecideRestart(world.view(), job, kSeed).wait, absl::ZeroDuration());
  const std::shared_ptr<const Attempt> third = job.current;
  job = WithoutProgram("c", 4);
  job.past = {first, second, third};
  decision = DecideRestart(world.view(), job, kSeed);
  EXPECT_EQ(decision.input, JobInput::kNotRetryable);
  EXPECT_THAT(decision.message, HasSubstr("nor have 2 others that were tried, and no other"));
  job.requeued_after = 3;
  job.restarts_in_row = 0;
  EXPECT_EQ(DecideRestart(world.view(), job, kSeed).input, JobInput::kClearedForRetry)
      << "somebody wants it tried anew";
}

TEST(RestartRulesTest, WhatIsMissingInAnUploadIsMissingEverywhere) {
  World world;
  for (const char* name : {"a", "b"}) world.AddWorker(name, 1);
  Job job = WithoutProgram("a");
  Attempt attempt = *job.current;
  attempt.missing = Missing::kInUpload;
  job.current = std::make_shared<const Attempt>(attempt);
  const RestartDecision decision = DecideRestart(world.view(), job, kSeed);
  EXPECT_EQ(decision.input, JobInput::kNotRetryable);
  EXPECT_THAT(decision.message, HasSubstr("; trying again would not help"));
}

TEST(RestartRulesTest, AnotherExitCodeOrSignalIsAnotherFailure) {
  for (const FailureClass kind : {FailureClass::kApplication, FailureClass::kRankKilled}) {
    Job job = LostBy(kind);
    Attempt before = *job.current;
    before.failed_rank = 0;
    (kind == FailureClass::kApplication ? before.ranks[0].exit_code : before.ranks[0].signal) = 11;
    job.past.push_back(std::make_shared<const Attempt>(before));
    Attempt now = before;
    job.current = std::make_shared<const Attempt>(now);
    EXPECT_EQ(Decide(job).input, JobInput::kNoProgressMade) << FailureClassName(kind);
    (kind == FailureClass::kApplication ? now.ranks[0].exit_code : now.ranks[0].signal) = 4;
    job.current = std::make_shared<const Attempt>(now);
    EXPECT_EQ(Decide(job).input, JobInput::kClearedForRetry) << FailureClassName(kind);
  }
}

TEST(RestartRulesTest, AJobThatSavesElsewhereShowsByItsStepsThatItGotFurther) {
  World world;
  world.AddJob(World::Settings(1));
  const auto ran = [&](int64_t from, int64_t to) {
    world.Place(1, {"a"}, JobState::kRunning);
    Attempt& attempt = world.draft().EditAttempt(1);
    attempt.first_step = from;
    attempt.last_step = to;
    return GotFurtherUnsaved(world.view(), *world.view().FindJob(1));
  };
  EXPECT_TRUE(ran(0, 10));
  EXPECT_FALSE(ran(0, 10)) << "as far as before";
  EXPECT_FALSE(ran(0, 7));
  EXPECT_TRUE(ran(0, 11));
  world.draft().EditJob(1).requeued_after = 4;
  EXPECT_TRUE(ran(0, 5)) << "begun anew";
  Checkpoint& row = world.draft().AddCheckpoint({.job_id = 1, .step = 6, .attempt = 5});
  world.draft().EditJob(1).checkpoints.push_back(row.id);
  EXPECT_TRUE(ran(0, 20)) << "that one was never committed";
  row.path = "/c/step-6";
  EXPECT_EQ(FurthestCommit(world.view(), *world.view().FindJob(1)), 6);
  EXPECT_FALSE(ran(0, 30)) << "a job that commits gets on by its checkpoints";
}

TEST(RestartRulesTest, AnAttemptThatMadeWayInBetweenDoesNotHideARepeatedFailure) {
  Job job = LostBy(FailureClass::kApplication);
  job.past.push_back(job.current);
  auto preemptions = std::make_shared<Attempt>(*job.current);
  preemptions->failure_class = FailureClass::kPreempted;
  job.past.push_back(preemptions);
  EXPECT_THAT(Decide(job).message, HasSubstr("APPLICATION twice in a row at step 7"));
}

}  // namespace
}  // namespace muster::controller
