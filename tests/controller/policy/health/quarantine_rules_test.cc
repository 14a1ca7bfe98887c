#include "controller/policy/health/quarantine_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

class QuarantineRulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b", "c"}) world_.AddWorker(name, 1);
  }
  Worker& bad() { return world_.draft().EditWorker(1); }
  uint64_t AddJobOf(const std::string& owner) {
    Job& job = world_.AddJob(World::Settings(1));
    job.owner = owner;
    return job.id;
  }
  // Of a user each.
  void AddJobs(int count) {
    for (int i = 1; i <= count; ++i) AddJobOf(absl::StrCat("user-", i));
  }
  // `ago` tells incidents apart.
  void WorkerFailure(uint64_t job, uint32_t attempt, absl::Duration ago,
                     FailureClass kind = FailureClass::kRankKilled) {
    bad().failures.push_back({.time = kNow - ago,
                              .job_id = job,
                              .attempt = attempt,
                              .failure_class = kind,
                              .cause = "signal 11"});
  }
  std::optional<Quarantine> Evaluate() {
    return EvaluateWorker(world_.view(), *world_.view().workers.Find(1), settings_, kNow);
  }

  World world_;
  QuarantineSettings settings_;
};

TEST_F(QuarantineRulesTest, FailuresOfTwoUsersJobsAreTwoSignals) {
  AddJobs(2);
  WorkerFailure(1, 1, absl::Minutes(9));
  WorkerFailure(2, 1, absl::Minutes(6));
  EXPECT_FALSE(Evaluate().has_value()) << "two incidents are not enough";
  WorkerFailure(1, 2, absl::Minutes(3));
  const auto quarantine = Evaluate();
  ASSERT_TRUE(quarantine.has_value());
  EXPECT_EQ(quarantine->until, kNow + settings_.first);
  EXPECT_THAT(quarantine->evidence,
              HasSubstr("3 failures within 1h of 2 jobs of 2 users: job 1 attempt 1 RANK_KILLED, "
                        "job 2"));
}

// `muster submit -- ./crashes`, twice, put a healthy worker into quarantine.
TEST_F(QuarantineRulesTest, JobsOfOneUserAreOneSignalUntilOneOfThemGotOnElsewhere) {
  AddJobOf("ann");
  AddJobOf("ann");
  world_.Place(1, {"a"}, JobState::kFailed);
  world_.Place(2, {"a"}, JobState::kPending);
  for (uint64_t job = 1; job <= 2; ++job) {
    WorkerFailure(job, 1, absl::Minutes(10 * job));
    WorkerFailure(job, 1, absl::Minutes(10 * job + 1), FailureClass::kHang);
  }
  EXPECT_FALSE(Evaluate().has_value()) << "both may run the same faulty program";
  world_.Place(2, {"b"}, JobState::kSucceeded);
  const auto quarantine = Evaluate();
  ASSERT_TRUE(quarantine.has_value());
  EXPECT_THAT(quarantine->evidence,
              HasSubstr("of 2 jobs, of which job 2 got on without it in attempt 2"));
}

TEST_F(QuarantineRulesTest, OneJobBlamesNobodyHoweverOftenItFailsAndWhereverItGetsOn) {
  AddJobOf("ann");
  for (uint32_t attempt = 1; attempt <= 5; ++attempt) {
    world_.Place(1, {"a"}, JobState::kPending);
    WorkerFailure(1, attempt, absl::Minutes(10 - attempt));
  }
  EXPECT_FALSE(Evaluate().has_value()) << "the job may be at fault";
  world_.Place(1, {"b"}, JobState::kRunning);
  EXPECT_FALSE(Evaluate().has_value()) << "it runs elsewhere, and has shown nothing yet";
  Checkpoint& row = world_.draft().AddCheckpoint(
      {.job_id = 1, .attempt = 6, .state = CheckpointState::kCommitted, .path = "/c/step-9"});
  world_.draft().EditJob(1).checkpoints.push_back(row.id);
  EXPECT_FALSE(Evaluate().has_value()) << "it is one job, on whose user's word the worker would go";
  AddJobOf("ann");
  WorkerFailure(2, 1, absl::Minutes(1));
  const auto quarantine = Evaluate();
  ASSERT_TRUE(quarantine.has_value());
  EXPECT_THAT(quarantine->evidence,
              HasSubstr("of 2 jobs, of which job 1 got on without it in attempt 6"));
}

TEST_F(QuarantineRulesTest, TheEvidenceNamesTheLastFewFailuresAndCountsThemAll) {
  AddJobs(2);
  for (uint32_t i = 1; i <= 14; ++i) WorkerFailure(1 + i % 2, i, absl::Minutes(20 - i));
  EXPECT_EQ(Evaluate()->evidence,
            "14 failures within 1h of 2 jobs of 2 users; the newest: job 1 attempt 12 "
            "RANK_KILLED, job 2 attempt 13 RANK_KILLED, job 1 attempt 14 RANK_KILLED");
}

TEST_F(QuarantineRulesTest, WhatHappensAtOnceIsOneIncident) {
  AddJobs(4);
  for (uint64_t job = 1; job <= 4; ++job) {
    WorkerFailure(job, 1, absl::Minutes(1), FailureClass::kWorkerLost);
  }
  EXPECT_FALSE(Evaluate().has_value());
}

TEST_F(QuarantineRulesTest, OldIncidentsAndThoseBeforeAReleaseDoNotCount) {
  AddJobs(3);
  for (uint64_t job = 1; job <= 3; ++job) {
    WorkerFailure(job, 1, absl::Minutes(10 * job));
  }
  ASSERT_TRUE(Evaluate().has_value());
  bad().quarantine_ended = kNow - absl::Minutes(25);
  EXPECT_FALSE(Evaluate().has_value());
  bad().quarantine_ended = absl::InfinitePast();
  bad().failures[0].time = kNow - absl::Minutes(61);
  EXPECT_FALSE(Evaluate().has_value());
}

TEST_F(QuarantineRulesTest, EachQuarantineIsTwiceAsLongUntilTheWorkerHasBeenGoodForLong) {
  AddJobs(3);
  for (uint64_t job = 1; job <= 3; ++job) {
    WorkerFailure(job, 1, absl::Minutes(job));
  }
  bad().quarantines = 2;
  bad().quarantine_ended = kNow - absl::Hours(1);
  EXPECT_EQ(Evaluate()->until, kNow + absl::Minutes(40));
  bad().quarantines = 30;
  EXPECT_EQ(Evaluate()->until, kNow + settings_.longest);
  bad().quarantine_ended = kNow - absl::Hours(25);
  EXPECT_EQ(Evaluate()->until, kNow + settings_.first);
  EXPECT_EQ(Evaluate()->number, 1u);
}

TEST_F(QuarantineRulesTest, AThirdOfAPoolAtMost) {
  AddJobs(3);
  for (uint64_t job = 1; job <= 3; ++job) {
    WorkerFailure(job, 1, absl::Minutes(job));
  }
  ASSERT_TRUE(Evaluate().has_value());
  world_.draft().EditWorker(2).quarantined_until = kNow + absl::Minutes(1);
  EXPECT_FALSE(Evaluate().has_value()) << "one of three is away already";
}

TEST_F(QuarantineRulesTest, OneOfTwoMayGoWhileTheOtherIsReadyAndAnOnlyOneIsExemptAloud) {
  const auto exempt = [&] {
    return WhyExempt(world_.view(), *world_.view().workers.Find(1), settings_, kNow);
  };
  AddJobs(3);
  for (uint64_t job = 1; job <= 3; ++job) {
    WorkerFailure(job, 1, absl::Minutes(job));
  }
  EXPECT_EQ(exempt(), "");
  world_.draft().EditWorker(3).facts.pool = "other";
  EXPECT_TRUE(Evaluate().has_value()) << "one of two";
  EXPECT_EQ(exempt(), "");
  world_.draft().EditWorker(2).cordoned = true;
  EXPECT_FALSE(Evaluate().has_value());
  EXPECT_THAT(exempt(), HasSubstr("not quarantined, since the other worker of pool default is not "
                                  "ready: 3 failures within 1h of 3 jobs of 3 users"));
  world_.draft().EditWorker(2).facts.pool = "other";
  EXPECT_FALSE(Evaluate().has_value());
  EXPECT_THAT(exempt(), HasSubstr("it is the only worker of pool default"));
  bad().failures.pop_back();
  EXPECT_EQ(exempt(), "");
}

TEST_F(QuarantineRulesTest, ApplicationsDataAndMemoryAreNeverTheWorkers) {
  Attempt attempt;
  for (const FailureClass kind :
       {FailureClass::kApplication, FailureClass::kDataError, FailureClass::kOutOfMemory,
        FailureClass::kNonFinite, FailureClass::kPreempted, FailureClass::kPeerLost}) {
    attempt.failure_class = kind;
    EXPECT_FALSE(MayBeTheWorkers(attempt)) << FailureClassName(kind);
  }
  attempt.failure_class = FailureClass::kWorkerLost;
  EXPECT_TRUE(MayBeTheWorkers(attempt));
}

TEST_F(QuarantineRulesTest, AProgramThatIsNotThereIsTheWorkersOnceAnotherHadIt) {
  Attempt attempt;
  attempt.failure_class = FailureClass::kStartFailed;
  EXPECT_TRUE(MayBeTheWorkers(attempt)) << "it did not start for another reason";
  EXPECT_FALSE(CountsAgainstWorkerLater(attempt));
  attempt.missing = Missing::kOnWorker;
  EXPECT_FALSE(MayBeTheWorkers(attempt));
  EXPECT_TRUE(CountsAgainstWorkerLater(attempt));
  attempt.missing = Missing::kInUpload;
  EXPECT_FALSE(MayBeTheWorkers(attempt));
  EXPECT_FALSE(CountsAgainstWorkerLater(attempt)) << "it is the same folder everywhere";
}

TEST_F(QuarantineRulesTest, AJobIsTakenFromTheWorkerThatLacksItsProgramAlone) {
  AddJobOf("ann");
  world_.Place(1, {"a", "b"}, JobState::kPending);
  Attempt& attempt = world_.draft().EditAttempt(1);
  attempt.failure_class = FailureClass::kStartFailed;
  attempt.missing = Missing::kOnWorker;
  attempt.failed_rank = 1;
  attempt.ended = kNow;
  world_.draft().EditJob(1).restarts_in_row = 1;
  EXPECT_THAT(FailedOn(*world_.view().FindJob(1)), ::testing::ElementsAre("b"));
}

}  // namespace
}  // namespace muster::controller
