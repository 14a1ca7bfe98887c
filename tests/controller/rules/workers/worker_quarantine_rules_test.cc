// Evidence against workers, from the reports to the quarantine and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/health/quarantine_rules.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::testing::HasSubstr;

class WorkerFailureTest : public ::muster::testing::ControllerFixture {
 protected:
  void SetUp() override {
    ControllerFixture::SetUp();
    bad_ = ConnectNew("bad", 1);
    // So that one worker of three may be away.
    for (const char* name : {"full-1", "full-2"}) others_.push_back(ConnectNew(name, 0));
  }
  // A job of its own, of the other user than before, fails on the bad worker.
  uint64_t FailOne(const Exit& exit) {
    ann_ = !ann_;
    const uint64_t id = Submit({.max_restarts = 0, .owner = ann_ ? "ann" : "bob"});
    ReportExit(bad_, StartRanks(bad_).fence, 0, exit);
    EXPECT_EQ(state(id), JobState::kFailed);
    Advance(absl::Seconds(1));
    return id;
  }

  // It comes back in another pool.
  void MoveAway(Agent& agent) {
    agent = MakeReborn(agent);
    agent.facts.pool = "another";
  }

  Agent bad_;
  std::vector<Agent> others_;
  bool ann_ = false;
};

TEST_F(WorkerFailureTest, AWorkerThatKeepsKillingRanksIsQuarantinedAndReleased) {
  for (int i = 0; i < 3; ++i) FailOne({.signal = 7, .message = "bus error"});
  EXPECT_TRUE(worker("bad").quarantined());
  EXPECT_EQ(WorkerStateName(worker("bad")), "quarantined");
  EXPECT_THAT(worker("bad").quarantine_reason,
              HasSubstr("3 failures within 1h of 3 jobs of 2 users"));
  EXPECT_THAT(worker("bad").failures.at(0).cause, HasSubstr("bus error"));
  const uint64_t waits = Submit();
  EXPECT_EQ(state(waits), JobState::kPending);

  const std::vector<WorkerFailure> failures = worker("bad").failures;
  Restart();
  EXPECT_EQ(worker("bad").failures, failures) << "evidence is durable";
  EXPECT_TRUE(worker("bad").quarantined());
  Connect(bad_);
  EXPECT_EQ(state(waits), JobState::kPending);

  Advance(absl::Minutes(10));
  Connect(bad_);
  EXPECT_FALSE(worker("bad").quarantined());
  EXPECT_EQ(state(waits), JobState::kStarting);
  EXPECT_EQ(worker("bad").failures.size(), 3u) << "kept as a record";
}

TEST_F(WorkerFailureTest, AReleasedWorkerThatFailsAgainGoesForTwiceAsLong) {
  for (int i = 0; i < 3; ++i) FailOne({.signal = 7});
  for (int i = 0; i < 601; i += 3) {
    clock_.Advance(absl::Seconds(3));
    Beat(bad_);
    for (Agent& other : others_) Beat(other);
  }
  ASSERT_FALSE(worker("bad").quarantined());
  for (int i = 0; i < 2; ++i) FailOne({.signal = 7});
  EXPECT_FALSE(worker("bad").quarantined()) << "what it has done penance for does not count";
  FailOne({.signal = 7});
  EXPECT_EQ(worker("bad").quarantines, 2u);
  EXPECT_GT(worker("bad").quarantined_until, clock_.Now() + absl::Minutes(19));
}

TEST_F(WorkerFailureTest, APersonMayTrustTheWorkerAgain) {
  for (int i = 0; i < 3; ++i) FailOne({.signal = 7});
  ASSERT_TRUE(worker("bad").quarantined());
  EXPECT_OK(Apply(CordonWorker{.worker = "bad", .cordoned = false, .actor = "user:ann"}).status);
  EXPECT_FALSE(worker("bad").quarantined());
  EXPECT_EQ(state(Submit()), JobState::kStarting);
}

TEST_F(WorkerFailureTest, AWorkerThatIsExemptForItsPoolsSakeIsNamed) {
  for (Agent& other : others_) {
    MoveAway(other);
    EXPECT_OK(Connect(other).status);
  }
  for (int i = 0; i < 3; ++i) FailOne({.signal = 7});
  EXPECT_FALSE(worker("bad").quarantined());
  EXPECT_THAT(worker("bad").quarantine_reason, HasSubstr("the only worker of pool default"));
}

// It went on being named for a neighbour that was away when it was evaluated.
TEST_F(WorkerFailureTest, AWorkerThatWasExemptIsEvaluatedAgainAsThePoolComesBack) {
  MoveAway(others_[1]);
  EXPECT_OK(Connect(others_[1]).status);
  const auto drain = [&](bool drained) {
    Apply(CordonWorker{.worker = "full-1", .cordoned = drained, .actor = "user:ann"});
  };
  const auto wait = [&](absl::Duration time) {
    for (absl::Duration gone; gone < time; gone += absl::Seconds(3)) {
      clock_.Advance(absl::Seconds(3));
      Beat(bad_);
      for (Agent& other : others_) Beat(other);
    }
  };
  drain(true);
  for (int i = 0; i < 3; ++i) FailOne({.signal = 7});
  EXPECT_THAT(worker("bad").quarantine_reason,
              HasSubstr("the other worker of pool default is not"));
  wait(absl::Seconds(30));
  EXPECT_THAT(worker("bad").quarantine_reason,
              HasSubstr("the other worker of pool default is not"));
  drain(false);
  wait(absl::Seconds(30));
  EXPECT_TRUE(worker("bad").quarantined()) << "the other one is ready";
  EXPECT_THAT(worker("bad").quarantine_reason, ::testing::StartsWith("3 failures within 1h"));
}

TEST_F(WorkerFailureTest, AnExemptWorkerIsNamedNoMoreWhenItsFailuresAreOldOrForgiven) {
  for (const bool forgiven : {true, false}) {
    for (Agent& other : others_) {
      MoveAway(other);
      EXPECT_OK(Connect(other).status);
    }
    for (int i = 0; i < 3; ++i) FailOne({.signal = 7});
    EXPECT_THAT(worker("bad").quarantine_reason, HasSubstr("the only worker of pool default"));
    if (forgiven) {
      Apply(CordonWorker{.worker = "bad", .cordoned = true, .actor = "user:ann"});
      Apply(CordonWorker{.worker = "bad", .cordoned = false, .actor = "user:ann"});
      Advance(absl::Seconds(1));
    } else {
      for (int i = 0; i < 3700; i += 10) {
        clock_.Advance(absl::Seconds(10));
        Beat(bad_);
      }
    }
    EXPECT_EQ(worker("bad").quarantine_reason, "") << forgiven;
  }
}

TEST_F(WorkerFailureTest, APersonWhoUndrainsAWorkerForgivesIt) {
  FailOne({.signal = 7});
  ASSERT_EQ(IncidentsAgainst(worker("bad"), absl::Hours(1), clock_.Now()), 1u);
  Advance(absl::Seconds(1));
  EXPECT_OK(Apply(CordonWorker{.worker = "bad", .cordoned = false, .actor = "user:ann"}).status);
  EXPECT_EQ(IncidentsAgainst(worker("bad"), absl::Hours(1), clock_.Now()), 0u);
  EXPECT_EQ(worker("bad").failures.size(), 1u) << "kept as a record";
  const absl::Time quarantine_ended = worker("bad").quarantine_ended;
  Advance(absl::Seconds(1));
  Beat(bad_);
  EXPECT_EQ(worker("bad").quarantine_ended, quarantine_ended) << "once";
}

TEST_F(WorkerFailureTest, AnApplicationsErrorsLeaveNoMark) {
  for (int i = 0; i < 6; ++i) {
    FailOne({.failure_class = FailureClass::kApplication, .exit_code = 1});
  }
  FailOne({.failure_class = FailureClass::kStartFailed, .exit_code = 2, .message = "bad spec"});
  EXPECT_TRUE(worker("bad").failures.empty());
}

// A worker that ends every program with exit code 1 (a broken GPU, mount or library) had a job
// twice, while another one stood idle, and the job was given up.
TEST_F(WorkerFailureTest, AJobLeavesTheWorkerThatEndsEveryProgramAndMarksItOnceItGotOn) {
  Agent good = ConnectNew("good", 1);
  const auto drain = [&](bool drained) {
    Apply(CordonWorker{.worker = "good", .cordoned = drained, .actor = "user:ann"});
  };
  for (size_t i = 0; i < 3; ++i) {
    drain(true);
    const uint64_t id = Submit({.max_restarts = 1});
    const Fence failed = StartRanks(bad_).fence;
    drain(false);
    ReportExit(bad_, failed, 0, {.failure_class = FailureClass::kApplication, .exit_code = 1});
    EXPECT_EQ(worker("bad").failures.size(), i) << "no decision yet";
    Advance(absl::Seconds(1));
    const Fence fence = StartRanks(good).fence;
    EXPECT_EQ(fence.job_id, id) << "another worker is tried";
    EXPECT_OK(Apply(MakeCommit(good, fence, 1)).status);
    EXPECT_OK(Apply(MakeCommit(good, fence, 2)).status);
    EXPECT_EQ(worker("bad").failures.size(), i + 1) << "once";
    ReportExit(good, fence, 0, {.succeeded = true});
    EXPECT_EQ(worker("bad").failures.size(), i + 1);
    EXPECT_TRUE(worker("good").failures.empty());
  }
  EXPECT_TRUE(worker("bad").quarantined());
}

// Two `muster submit -- pyhton train.py` put a healthy worker into quarantine.
TEST_F(WorkerFailureTest, AMisspeltProgramLeavesNoMark) {
  for (int i = 0; i < 6; ++i) {
    FailOne({.failure_class = FailureClass::kStartFailed,
             .message = "no program `pyhton`",
             .missing = Missing::kOnWorker});
  }
  EXPECT_TRUE(worker("bad").failures.empty());
  EXPECT_FALSE(worker("bad").quarantined());
}

TEST_F(WorkerFailureTest, AWorkerWithoutTheProgramIsMarkedOnceTheJobGotOnElsewhere) {
  const uint64_t id = Submit();
  const Exit missing = {.failure_class = FailureClass::kStartFailed,
                        .message = "no program `python3`",
                        .missing = Missing::kOnWorker};
  Agent good = MakeAgent("good", 1);
  const Fence failed = StartRanks(bad_, /*running=*/false).fence;
  EXPECT_OK(Connect(good).status);
  ReportExit(bad_, failed, 0, missing);
  EXPECT_TRUE(worker("bad").failures.empty());
  Restart();
  EXPECT_EQ(FindAttempt(job(id), 1)->missing, Missing::kOnWorker) << "it is durable";
  Connect(bad_);
  Connect(good);
  Advance(absl::Seconds(1));
  const Fence fence = StartRanks(good).fence;
  EXPECT_EQ(fence.job_id, id);
  ReportExit(good, fence, 0, {.succeeded = true});
  ASSERT_EQ(worker("bad").failures.size(), 1u);
  EXPECT_THAT(worker("bad").failures[0].cause, HasSubstr("no program `python3`"));
}

TEST_F(WorkerFailureTest, ACancelledAttemptHasNoFailure) {
  const uint64_t id = Submit();
  const Fence fence = StartRanks(bad_).fence;
  EXPECT_OK(Cancel(id));
  ReportExit(bad_, fence, 0, {.stopped = true, .signal = 15});
  EXPECT_EQ(state(id), JobState::kCancelled);
  EXPECT_EQ(job(id).current->failure_class, FailureClass::kNone);
  EXPECT_EQ(job(id).current->cause, "cancelled");
  EXPECT_TRUE(worker("bad").failures.empty());
}

TEST_F(WorkerFailureTest, RestartsAreChargedByClassAndRefilledByACheckpoint) {
  const uint64_t id = Submit({.max_restarts = 2});
  ReportExit(bad_, StartRanks(bad_).fence, 0, {.signal = 9});
  EXPECT_EQ(job(id).charged.at(FailureClass::kRankKilled), 1u);
  Restart();
  EXPECT_EQ(job(id).charged.at(FailureClass::kRankKilled), 1u);
  Connect(bad_);
  Advance(absl::Seconds(1));
  const Fence fence = StartRanks(bad_).fence;
  EXPECT_OK(Apply(MakeCommit(bad_, fence, 10)).status);
  EXPECT_TRUE(job(id).charged.empty());
}

}  // namespace
}  // namespace muster::controller
