// Jobs that ended long ago leave the model and the database, and nothing else changes by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/model/ledger_rules.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::DescribeModel;
using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::MakeSettings;
using ::muster::testing::ModelFaults;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

void Ignore(const EventResult&) {}

class ForgetJobsTest : public ::muster::testing::ControllerFixture {
 protected:
  void Forget(const ForgetSettings& settings) {
    forget_ended_ = settings;
    Restart();
  }
  // One that waits for workers that are not there.
  uint64_t SubmitWaiting(const std::string& name, const std::string& key = "") {
    return Submit({.min_ranks = 9, .wait_for_capacity = true, .key = key, .name = name});
  }
  uint64_t SubmitAndCancel(const std::string& name, const std::string& key = "") {
    const uint64_t id = SubmitWaiting(name, key);
    EXPECT_OK(Cancel(id));
    return id;
  }
  bool IsThere(uint64_t id) const { return snapshot()->FindJob(id) != nullptr; }
  void Pass(absl::Duration time) {
    clock_.Advance(time);
    RunUntilIdle();
  }
  ForgetJobs Ended(uint64_t id) const { return {.jobs = {{id, FinishedAt(job(id))}}}; }
};

TEST_F(ForgetJobsTest, WhatIsForgottenIsGoneAfterARestartToo) {
  Forget({.after = absl::Hours(1)});
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t waits = SubmitWaiting("waits");
  const uint64_t ran = Submit({.name = "ran"});
  const Fence fence = StartRanks(one).fence;
  Pass(absl::Seconds(5));
  ReportExit(one, fence, 0, {.succeeded = true});
  ASSERT_EQ(state(ran), JobState::kSucceeded);
  const uint64_t cancelled = SubmitAndCancel("cancelled");
  const JobLedger ledger = job(ran).ledger;
  ASSERT_GE(ledger.settled.total(), absl::Seconds(5));
  const uint64_t last_event = snapshot()->last_event;
  Pass(absl::Minutes(59));
  EXPECT_TRUE(IsThere(ran));
  Pass(absl::Minutes(2));
  EXPECT_FALSE(IsThere(ran));
  EXPECT_FALSE(IsThere(cancelled));
  EXPECT_EQ(snapshot()->FindJobByName("ran"), nullptr);
  EXPECT_EQ(snapshot()->events.size(), job(waits).events.size());
  EXPECT_EQ(snapshot()->last_event, last_event);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());

  const std::string before = DescribeModel(*snapshot());
  Restart();
  EXPECT_EQ(DescribeModel(*snapshot()), before);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  EXPECT_EQ(snapshot()->forgotten_time->at("default").held, ledger.settled);
  const uint64_t next = SubmitWaiting("next");
  EXPECT_EQ(next, cancelled + 1) << "no number is given a second time";
  EXPECT_EQ(job(next).events.front()->sequence, last_event + 1);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ForgetJobsTest, TheKeyOfAForgottenJobBeginsANewOne) {
  Forget({.after = absl::Hours(1)});
  const uint64_t first = SubmitAndCancel("a", "key");
  EXPECT_EQ(SubmitWaiting("a", "key"), first);
  Pass(absl::Hours(2));
  const uint64_t second = SubmitWaiting("a", "key");
  EXPECT_NE(second, first);
  EXPECT_EQ(SubmitWaiting("a", "key"), second);
  Restart();
  EXPECT_EQ(SubmitWaiting("a", "key"), second);
}

TEST_F(ForgetJobsTest, BeyondTheBoundTheLongestEndedGo) {
  Forget({.most = 3});
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) SubmitAndCancel(name);
  const uint64_t waits = SubmitWaiting("waits");
  EXPECT_EQ(snapshot()->jobs.size(), 7u) << "they have only just ended";
  Pass(kLeastKeptBeyondMost);
  EXPECT_EQ(snapshot()->jobs.size(), 4u);
  for (const uint64_t id : {uint64_t{4}, uint64_t{5}, uint64_t{6}, waits}) {
    EXPECT_TRUE(IsThere(id)) << id;
  }
  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), 4u);
}

TEST_F(ForgetJobsTest, MoreThanABatchGoesBatchByBatch) {
  Forget({.after = absl::Hours(1)});
  JobOptions options = {.min_ranks = 9, .wait_for_capacity = true};
  for (size_t i = 0; i < 2 * ForgetJobs::kMost + 10; ++i) {
    options.name = absl::StrCat("job-", i);
    engine_->Post(SubmitJob{.settings = MakeSettings(options), .owner = "ann"}, Ignore);
  }
  RunUntilIdle();
  for (const uint64_t id : std::vector<uint64_t>(*snapshot()->active_jobs)) {
    engine_->Post(CancelJob{.job_id = id, .actor = "user:ann"}, Ignore);
  }
  RunUntilIdle();
  Pass(absl::Hours(2));
  EXPECT_EQ(snapshot()->jobs.size(), 0u);
  EXPECT_EQ(snapshot()->events.size(), 0u);
  Restart();
  EXPECT_EQ(snapshot()->jobs.last_id(), 2 * ForgetJobs::kMost + 10);
}

TEST_F(ForgetJobsTest, AnArrayGoesWholeAndAtOnce) {
  Forget({.most = 5});
  const JobOptions options = {.min_ranks = 9, .wait_for_capacity = true, .name = "sweep"};
  const EventResult array =
      Apply(SubmitJob{.settings = MakeSettings(options),
                      .owner = "ann",
                      .array = ArrayRange{.first = 1, .last = ForgetJobs::kMost + 20}});
  ASSERT_OK(array.status);
  EXPECT_EQ(snapshot()->jobs.size(), ForgetJobs::kMost + 20);
  ASSERT_OK(Cancel(array.job_id + 7));
  EXPECT_EQ(snapshot()->jobs.size(), ForgetJobs::kMost + 20);
  std::set<size_t> sizes;  // that anybody saw
  {
    const std::shared_ptr<void> watch = engine_->Subscribe(
        [&](const std::shared_ptr<const Snapshot>& now) { sizes.insert(now->jobs.size()); });
    EXPECT_OK(
        Apply(CancelJob{.job_id = array.job_id, .actor = "user:ann", .whole_array = true}).status);
    Pass(kLeastKeptBeyondMost);
  }
  EXPECT_THAT(sizes, ElementsAre(size_t{0}, ForgetJobs::kMost + 20));
  EXPECT_EQ(snapshot()->arrays.Find(ArrayKey(array.job_id)), nullptr);
  EXPECT_EQ(snapshot()->by_name.Find("sweep"), nullptr);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  Restart();
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

// Each pair is applied in one batch.
TEST_F(ForgetJobsTest, WhatCameInBetweenKeepsTheJob) {
  const uint64_t id = SubmitAndCancel("a");
  const ForgetJobs proposal = Ended(id);
  engine_->Post(ControlJob{.verb = ControlJob::Verb::kRequeue,
                           .job_id = id,
                           .actor = "user:ann",
                           .request_id = "again"},
                Ignore);
  engine_->Post(proposal, Ignore);
  RunUntilIdle();
  ASSERT_TRUE(IsThere(id));
  EXPECT_EQ(state(id), JobState::kPending);
  Pass(absl::Seconds(1));
  ASSERT_OK(Cancel(id));
  Apply(proposal);
  EXPECT_TRUE(IsThere(id)) << "it ended anew";

  auto settings = std::make_shared<JobSettings>(
      *MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "after"}));
  settings->scheduling.after = {{.job_id = id, .on = SchedulingSettings::On::kEnd}};
  uint64_t waits = 0;
  engine_->Post(SubmitJob{.settings = settings, .owner = "ann"},
                [&](const EventResult& result) { waits = result.job_id; });
  engine_->Post(Ended(id), Ignore);
  RunUntilIdle();
  EXPECT_TRUE(IsThere(id)) << "a job waits for it";
  ASSERT_OK(Cancel(waits));
  Apply(Ended(id));
  EXPECT_FALSE(IsThere(id));
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ForgetJobsTest, WhatComesAfterItFindsNothing) {
  const uint64_t id = SubmitAndCancel("a", "key");
  engine_->Post(Ended(id), Ignore);
  EventResult again;
  engine_->Post(
      SubmitJob{.settings = MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "a"}),
                .owner = "ann",
                .idempotency_key = "key"},
      [&](const EventResult& result) { again = result; });
  EventResult cancelled;
  engine_->Post(CancelJob{.job_id = id, .actor = "user:ann"},
                [&](const EventResult& result) { cancelled = result; });
  RunUntilIdle();
  EXPECT_OK(again.status);
  EXPECT_EQ(again.job_id, id + 1);
  EXPECT_FALSE(again.already_existed);
  EXPECT_THAT(cancelled.status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(IsThere(id));
  Restart();
  EXPECT_EQ(SubmitWaiting("a", "key"), id + 1);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ForgetJobsTest, AJobWithCheckpointsStays) {
  Forget({.after = absl::Hours(1)});
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.name = "saves"});
  const Fence fence = StartRanks(one).fence;
  ASSERT_OK(Apply(MakeCommit(one, fence, 10)).status);
  ReportExit(one, fence, 0, {.succeeded = true, .last_step = 10});
  ASSERT_EQ(state(id), JobState::kSucceeded);
  Pass(absl::Hours(50));
  ASSERT_TRUE(IsThere(id));
  EXPECT_EQ(job(id).checkpoints.size(), 1u);
}

TEST_F(ForgetJobsTest, WhatWasLearnedGoesWithTheLastJobThatTaughtIt) {
  Agent one = ConnectNew("worker-1", 1);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 2; ++i) {
    ids.push_back(Submit({.name = "nightly"}));
    const Fence fence = StartRanks(one).fence;
    Pass(absl::Seconds(5));
    ReportExit(one, fence, 0, {.succeeded = true});
  }
  const std::string key = RunTimeKey(*job(ids[0]).settings);
  Apply(Ended(ids[0]));
  ASSERT_FALSE(IsThere(ids[0]));
  ASSERT_NE(snapshot()->run_times.Find(key), nullptr);
  Apply(Ended(ids[1]));
  ASSERT_FALSE(IsThere(ids[1]));
  EXPECT_EQ(snapshot()->run_times.Find(key), nullptr);
}

}  // namespace
}  // namespace muster::controller
