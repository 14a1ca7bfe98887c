// What an explanation says, kind by kind; that it is true is held by explain_property_test.
#include "controller/policy/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/policy/explain/outlook.h"
#include "controller/policy/explain/what_if.h"
#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);

class ExplainTest : public ::testing::Test {
 protected:
  // Ready at once, and of a known length if one is given.
  Job& AddJob(uint32_t ranks, absl::Duration expected = absl::ZeroDuration()) {
    JobSettings settings = World::Settings(ranks);
    settings.name = absl::StrCat("job", ++jobs_);
    settings.project = "p";
    settings.scheduling.expected_run_time = expected;
    Job& job = world_.AddJob(std::move(settings));
    job.submitted = kWall - absl::Minutes(1);
    job.owner = "ann";
    return job;
  }
  JobSettings& Settings(Job& job) {
    auto settings = std::make_shared<JobSettings>(*job.settings);
    job.settings = settings;
    return *settings;
  }
  // Places what the scheduler would place.
  void Place() {
    for (const PlaceGang& gang : Schedule(world_.view(), context_).plan.place) {
      StartGang(world_.draft(), gang, context_);
    }
  }
  void Pass(absl::Duration time) {
    context_.wall += time;
    context_.now += time;
  }
  Explanation Explain(uint64_t id) { return controller::Explain(world_.view(), id, context_); }
  // The only blocker that is no hint.
  Blocker Only(uint64_t id) {
    const Explanation e = Explain(id);
    Blocker found;
    int count = 0;
    for (const Blocker& blocker : e.blockers) {
      if (blocker.is_hint) continue;
      found = blocker;
      ++count;
    }
    EXPECT_EQ(count, 1) << e.forecast;
    return found;
  }

  World world_{kWall - absl::Hours(1)};
  ScheduleContext context_{.now = absl::Hours(1), .wall = kWall};
  int jobs_ = 0;
};

TEST_F(ExplainTest, AJobThatFitsStartsNowAndItsCostIsKnown) {
  world_.AddWorker("w1", 4);
  const uint64_t id = AddJob(3, absl::Minutes(90)).id;
  const Explanation e = Explain(id);
  EXPECT_THAT(e.blockers, IsEmpty());
  EXPECT_EQ(e.start, kWall);
  EXPECT_EQ(e.slots, 3u);
  EXPECT_DOUBLE_EQ(e.slot_hours, 4.5);
  EXPECT_EQ(e.run_time_source, RunTimeSource::kDeclared);
  EXPECT_EQ(e.forecast, "would start now: 3 ranks on w1; for 1h30m as declared, 4.50 slot-hours");
}

TEST_F(ExplainTest, SlotsThatAreTakenAreCountedAndTheirEndIsTold) {
  world_.AddWorker("w1", 4);
  const uint64_t first = AddJob(3, absl::Minutes(20)).id;
  Place();
  const uint64_t second = AddJob(2, absl::Hours(1)).id;
  Pass(absl::Minutes(5));
  const Explanation e = Explain(second);
  const Blocker blocker = Only(second);
  EXPECT_EQ(blocker.kind, BlockerKind::kSlots);
  EXPECT_EQ(blocker.needed, "2 CPU slots");
  EXPECT_EQ(blocker.available, "1 of 4 free on 1 ready worker");
  EXPECT_EQ(e.start, kWall + absl::Minutes(20));
  ASSERT_EQ(e.rests_on.size(), 1u);
  EXPECT_EQ(e.rests_on[0].job_id, first);
  EXPECT_EQ(e.rests_on[0].source, RunTimeSource::kDeclared);
  EXPECT_EQ(e.rests_on[0].end, kWall + absl::Minutes(20));
  EXPECT_THAT(e.forecast, HasSubstr("in 15m: 2 ranks on w1; for 1h as declared, 2.00 slot-hours"));
  EXPECT_THAT(e.reason, HasSubstr("needs 2 CPU slots in pool default: 1 of 4 free"));
}

TEST_F(ExplainTest, WhenNobodySaysHowLongItRunsTheStartIsUnknownAndWhy) {
  world_.AddWorker("w1", 1);
  AddJob(1);
  Place();
  const Explanation e = Explain(AddJob(1).id);
  EXPECT_EQ(e.start, absl::InfiniteFuture());
  EXPECT_THAT(e.why_unknown, HasSubstr("nobody can tell when job 1 (job1) will end"));
  EXPECT_THAT(e.forecast, HasSubstr("declare scheduling.expected_run_time"));
  EXPECT_LT(e.slot_hours, 0);
}

TEST_F(ExplainTest, AJobThatRunsLongerThanExpectedHasNoEnd) {
  world_.AddWorker("w1", 1);
  AddJob(1, absl::Minutes(2));
  Place();
  Pass(absl::Minutes(3));
  EXPECT_THAT(Explain(AddJob(1).id).why_unknown, HasSubstr("runs for longer than expected"));
}

// `watch` said "eta 18s", and `explain` beside it that nobody can tell.
TEST_F(ExplainTest, TheEndThatARunningJobsOwnProgressForetellsCounts) {
  world_.AddWorker("w1", 2);
  const uint64_t first = AddJob(2).id;
  Place();
  JobPace& pace = world_.draft().EditJob(first).progress.pace;
  pace.attempt = 1;
  pace.end = kWall + absl::Minutes(20);
  Pass(absl::Minutes(5));
  Explanation e = Explain(first);
  EXPECT_EQ(e.end, kWall + absl::Minutes(20));
  EXPECT_EQ(e.run_time_source, RunTimeSource::kProgress);
  const uint64_t head = AddJob(2, absl::Hours(1)).id;
  e = Explain(head);
  EXPECT_EQ(e.start, kWall + absl::Minutes(20));
  ASSERT_EQ(e.rests_on.size(), 1u);
  EXPECT_EQ(e.rests_on[0].job_id, first);
  EXPECT_EQ(e.rests_on[0].source, RunTimeSource::kProgress);
}

TEST_F(ExplainTest, BackfillGoesByTheForetoldEndAsWell) {
  world_.AddWorker("w1", 2);
  const uint64_t first = AddJob(1).id;
  Place();
  JobPace& pace = world_.draft().EditJob(first).progress.pace;
  pace.attempt = 1;
  pace.end = kWall + absl::Minutes(10);
  AddJob(2, absl::Hours(1));
  const uint64_t shorter = AddJob(1, absl::Minutes(9)).id;
  EXPECT_THAT(Explain(shorter).blockers, IsEmpty()) << "it is gone before the head could start";
  pace.end = absl::InfiniteFuture();
  EXPECT_EQ(Only(shorter).kind, BlockerKind::kOrder) << "the head could start at any moment";
}

TEST_F(ExplainTest, WhoComesFirstIsNamedInOrder) {
  world_.AddWorker("w1", 2);
  AddJob(2, absl::Minutes(10));
  Place();
  const uint64_t head = AddJob(2, absl::Minutes(10)).id;
  const uint64_t next = AddJob(1, absl::Minutes(30)).id;
  const uint64_t last = AddJob(2, absl::Minutes(1)).id;
  Settings(world_.draft().EditJob(next)).priority = 5;
  const Explanation e = Explain(last);
  EXPECT_THAT(e.ahead, ElementsAre(next, head));
  EXPECT_EQ(e.ahead_count, 2u);
  EXPECT_EQ(e.blockers.back().kind, BlockerKind::kOrder);
  EXPECT_EQ(e.blockers.back().job_id, next);
  EXPECT_THAT(e.reason, HasSubstr(absl::StrCat("waits behind job ", next)));
  EXPECT_EQ(e.start, kWall + absl::Minutes(10 + 30 + 10));
}

TEST_F(ExplainTest, FreeSlotsThatAreKeptAreForThoseWhoEndInTime) {
  world_.AddWorker("w1", 2);
  AddJob(1, absl::Minutes(10));
  Place();
  const uint64_t head = AddJob(2, absl::Minutes(10)).id;
  const uint64_t shorter = AddJob(1, absl::Minutes(9)).id;
  EXPECT_THAT(Explain(shorter).blockers, IsEmpty()) << "it passes";
  const Blocker blocker = Only(AddJob(1, absl::Minutes(11)).id);
  EXPECT_EQ(blocker.kind, BlockerKind::kOrder);
  EXPECT_EQ(blocker.job_id, head);
}

TEST_F(ExplainTest, HoldBeginAndDependencyAreEachNamed) {
  world_.AddWorker("w1", 1);
  const uint64_t other = AddJob(1, absl::Hours(1)).id;
  Place();
  Job& job = AddJob(1);
  job.held = true;
  JobSettings& settings = Settings(job);
  settings.scheduling.begin = kWall + absl::Minutes(30);
  settings.scheduling.after = {{.job_id = other, .on = SchedulingSettings::On::kSuccess}};
  const Explanation e = Explain(job.id);
  ASSERT_GE(e.blockers.size(), 4u);
  EXPECT_EQ(e.blockers[0].kind, BlockerKind::kHeld);
  EXPECT_THAT(e.blockers[0].message, HasSubstr("`muster release 2`"));
  EXPECT_EQ(e.blockers[1].kind, BlockerKind::kDependency);
  EXPECT_EQ(e.blockers[1].job_id, other);
  EXPECT_EQ(e.blockers[1].available, "RUNNING");
  EXPECT_EQ(e.blockers[2].kind, BlockerKind::kBegin);
  EXPECT_EQ(e.blockers[3].kind, BlockerKind::kSlots) << "which it would lack, too";
  EXPECT_EQ(e.why_unknown, "it is held");
  EXPECT_EQ(e.reason, e.blockers[0].message);
}

TEST_F(ExplainTest, AQuotaSaysWhatIsLeft) {
  world_.AddWorker("w1", 8);
  Project& project = world_.draft().EditProject("p");
  project.quota.slots = 4;
  AddJob(3, absl::Minutes(10));
  Place();
  const uint64_t over = AddJob(2, absl::Minutes(10)).id;
  const uint64_t behind = AddJob(1, absl::Minutes(10)).id;
  const Blocker blocker = Only(over);
  EXPECT_EQ(blocker.kind, BlockerKind::kQuota);
  EXPECT_EQ(blocker.needed, "2 slots");
  EXPECT_EQ(blocker.available, "1 of 4 left");
  EXPECT_THAT(blocker.message, HasSubstr("project p holds 3 of its 4 slots"));
  EXPECT_EQ(Explain(over).start, kWall + absl::Minutes(10));
  EXPECT_EQ(Explain(behind).blockers.front().job_id, over) << "nobody slips past";
}

// Nothing of it is held: it is kept for a job that waits for slots.
TEST_F(ExplainTest, AQuotaThatIsKeptForAnotherJobNamesThat) {
  world_.AddWorker("w1", 2);
  world_.AddWorker("w2", 1, SlotKind::kCpu, "other");
  world_.draft().EditProject("p").quota.slots = 2;
  Job& others = AddJob(2, absl::Minutes(10));
  Settings(others).project = "q";
  Place();
  const uint64_t reserved = AddJob(2, absl::Minutes(10)).id;
  Job& later = AddJob(1, absl::Minutes(10));
  Settings(later).needs.pools = {{"other", {}}};
  const Blocker blocker = Only(later.id);
  EXPECT_EQ(blocker.kind, BlockerKind::kQuota);
  EXPECT_EQ(blocker.job_id, reserved);
  EXPECT_EQ(blocker.message, absl::StrCat("waits behind job ", reserved, " (job2) of the same ",
                                          "project, which needs what is left of the quota"));
  EXPECT_EQ(blocker.available, "0 of 2 left");
}

TEST_F(ExplainTest, WhoIsHeldBackByAQuotaOrItsArrayIsNotAhead) {
  world_.AddWorker("w1", 4);
  world_.draft().EditProject("p").quota.slots = 2;
  AddJob(2);
  Job& task = AddJob(1);
  Settings(task).project = "arrays";
  task.array = {.array_id = task.id, .index = 0, .at_a_time = 1};
  Place();
  AddJob(1);  // its project is full
  Job& next_task = AddJob(1);
  Settings(next_task).project = "arrays";
  next_task.array = {.array_id = task.id, .index = 1, .at_a_time = 1};
  Job& first = AddJob(2);
  Settings(first).project = "others";
  Job& job = AddJob(2);
  Settings(job).project = "others";
  const Explanation e = Explain(job.id);
  EXPECT_THAT(e.ahead, ElementsAre(first.id));
  EXPECT_EQ(e.ahead_count, 1u);
}

TEST_F(ExplainTest, WorkersThatTakeNothingAndOthersThatDoNotSuitAreNamed) {
  world_.AddWorker("w1", 2).cordoned = true;
  world_.AddWorker("w2", 1).facts.labels = {{"zone", "a"}};
  world_.AddWorker("w3", 8);
  Job& job = AddJob(2);
  Settings(job).needs.selector = {{"zone", "a"}};
  world_.draft().EditWorker(1).facts.labels = {{"zone", "a"}};
  const Explanation e = Explain(job.id);
  ASSERT_EQ(e.blockers.size(), 2u);
  EXPECT_EQ(e.blockers[0].kind, BlockerKind::kWorkers);
  EXPECT_THAT(e.blockers[0].message, HasSubstr("w1 (drained)"));
  EXPECT_EQ(e.blockers[0].available, "room for 1 rank on 1 ready worker when idle");
  EXPECT_TRUE(e.blockers[1].is_hint);
  EXPECT_EQ(e.blockers[1].kind, BlockerKind::kLabels);
  EXPECT_EQ(e.blockers[1].available, "8 free slots there");
}

TEST_F(ExplainTest, FreeSlotsOfWorkersThatCannotRunItsImageAreNamed) {
  WorkerFacts& facts = world_.AddWorker("w1", 1).facts;
  facts.allows_commands = true;
  facts.container_runtimes = {"podman"};
  world_.AddWorker("w2", 8).facts.allows_commands = true;
  Job& job = AddJob(2);
  Settings(job).needs.commands = true;
  Settings(job).needs.image = JobNeeds::Image::kReference;
  const Explanation e = Explain(job.id);
  ASSERT_FALSE(e.blockers.empty());
  EXPECT_TRUE(e.blockers.back().is_hint);
  EXPECT_EQ(e.blockers.back().kind, BlockerKind::kImages);
  EXPECT_EQ(e.blockers.back().message, "workers without a container runtime");
  EXPECT_EQ(e.blockers.back().available, "8 free slots there");
}

TEST_F(ExplainTest, CpusAndMemoryAreCountedWhereSlotsAreFree) {
  Worker& worker = world_.AddWorker("w1", 8);
  worker.facts.cpus = 6;
  worker.facts.memory_bytes = uint64_t{4} << 30;
  Job& first = AddJob(1, absl::Minutes(5));
  Settings(first).needs.cpus_per_rank = 4;
  Settings(first).needs.memory_per_rank = uint64_t{3} << 30;
  Place();
  Job& job = AddJob(1);
  Settings(job).needs.cpus_per_rank = 3;
  Settings(job).needs.memory_per_rank = uint64_t{2} << 30;
  const Explanation e = Explain(job.id);
  ASSERT_EQ(e.blockers.size(), 2u);
  EXPECT_EQ(e.blockers[0].kind, BlockerKind::kCpus);
  EXPECT_EQ(e.blockers[0].available, "2 left, for 0 ranks");
  EXPECT_EQ(e.blockers[1].kind, BlockerKind::kMemory);
  EXPECT_EQ(e.blockers[1].needed, "1 x 2.0 GiB");
  EXPECT_EQ(e.start, kWall + absl::Minutes(5));
}

TEST_F(ExplainTest, AFurtherPoolCountsLaterAndTheForecastKnowsIt) {
  world_.AddWorker("w1", 1, SlotKind::kCpu, "spot");
  world_.AddWorker("w2", 1, SlotKind::kCpu, "default");
  Job& running = AddJob(1, absl::Hours(5));
  Settings(running).needs.pools = {{"spot", {}}};
  Place();
  Job& job = AddJob(1);
  Settings(job).needs.pools = {{"spot", {}}, {"default", absl::Minutes(10)}};
  const Explanation e = Explain(job.id);
  ASSERT_EQ(e.blockers.size(), 2u);
  EXPECT_EQ(e.blockers[0].pool, "spot");
  EXPECT_EQ(e.blockers[1].kind, BlockerKind::kPool);
  EXPECT_EQ(e.blockers[1].needed, "10m");
  EXPECT_EQ(e.blockers[1].available, "1m");
  EXPECT_EQ(e.start, kWall + absl::Minutes(9));
  EXPECT_EQ(e.ranks.front().worker, "w2");
}

TEST_F(ExplainTest, AJobOfHigherPriorityNamesWhoMakesWay) {
  world_.AddWorker("w1", 1);
  const uint64_t victim = AddJob(1, absl::Hours(5)).id;
  Place();
  Job& job = AddJob(1);
  Settings(job).priority = 1;
  const Explanation e = Explain(job.id);
  EXPECT_THAT(e.blockers.front().message,
              HasSubstr(absl::StrCat("makes way for it: job ", victim)));
  EXPECT_EQ(e.start, kWall) << "gangs that make way are taken to be gone at once";
}

TEST_F(ExplainTest, ADeadlineThatPassesFirstIsSaid) {
  world_.AddWorker("w1", 1);
  AddJob(1, absl::Hours(5));
  Place();
  Job& job = AddJob(1);
  Settings(job).scheduling.deadline = kWall + absl::Hours(1);
  EXPECT_THAT(Explain(job.id).why_unknown, HasSubstr("its deadline"));
}

TEST_F(ExplainTest, AJobThatIsPastItsDeadlineIsToldThatAndNoBlockers) {
  world_.AddWorker("a", 1);
  Job& job = world_.AddJob(World::Settings(1));
  Settings(job).scheduling.deadline = kWall - absl::Seconds(1);
  const Explanation told = Explain(job.id);
  EXPECT_THAT(told.why_unknown, HasSubstr("its deadline"));
  EXPECT_EQ(told.reason, told.why_unknown);
  EXPECT_THAT(told.blockers, ::testing::IsEmpty());
}

TEST_F(ExplainTest, AJobThatRunsOrHasEndedHasNoBlockers) {
  world_.AddWorker("w1", 2);
  const uint64_t id = AddJob(2).id;
  Place();
  const Explanation e = Explain(id);
  EXPECT_FALSE(e.waits);
  EXPECT_THAT(e.blockers, IsEmpty());
  EXPECT_EQ(e.ranks.size(), 2u);
  EXPECT_EQ(e.why_unknown, "it is RUNNING");
}

TEST_F(ExplainTest, BeyondSoManyJobsNoStartIsWorkedOut) {
  world_.AddWorker("w1", 1);
  for (size_t i = 0; i <= kMaxOutlookJobs; ++i) AddJob(1, absl::Minutes(1));
  const Explanation e = Explain(kMaxOutlookJobs);
  EXPECT_EQ(e.start, absl::InfiniteFuture());
  EXPECT_THAT(e.why_unknown, HasSubstr("more than 20000 jobs are active"));
  EXPECT_EQ(e.ahead_count, kMaxOutlookJobs - 1);
  EXPECT_EQ(e.ahead.size(), Explanation::kMaxListed);
}

TEST_F(ExplainTest, ANewJobIsEvaluatedAsIfItWereSubmittedNow) {
  world_.AddWorker("w1", 2);
  AddJob(2, absl::Minutes(10));
  Place();
  JobSettings settings = World::Settings(1);
  settings.project = "p";
  settings.scheduling.max_run_time = absl::Minutes(30);
  const Explanation e = ExplainNew(world_.view(), settings, "ann", context_);
  EXPECT_EQ(e.start, kWall + absl::Minutes(10));
  EXPECT_EQ(e.run_time_source, RunTimeSource::kLimit);
  EXPECT_THAT(e.forecast, HasSubstr("for 30m at most, 0.50 slot-hours"));
  EXPECT_EQ(world_.view().jobs.size(), 1u);
}

}  // namespace
}  // namespace muster::controller
