// In which order jobs come to be placed, and what keeps them out of the queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/policy/queue/admission.h"
#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kNow = absl::Hours(1);
const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);

class QueueTest : public ::testing::Test {
 protected:
  Job& Add(const std::string& project, const std::string& owner = "ann", uint32_t ranks = 1,
           int32_t priority = 0) {
    JobSettings settings = World::Settings(ranks);
    settings.project = project;
    settings.priority = priority;
    Job& job = world_.AddJob(settings);
    job.owner = owner;
    job.submitted = kWall;
    return job;
  }
  std::vector<uint64_t> Placed(absl::Duration later = absl::ZeroDuration()) {
    decision_ =
        Schedule(world_.view(), {.now = kNow + later, .wall = kWall + later + clock_set_by_});
    std::vector<uint64_t> jobs;
    for (const PlaceGang& gang : decision_.plan.place) jobs.push_back(gang.job_id);
    return jobs;
  }
  std::string MessageOf(uint64_t job_id) const {
    for (const Waiting& waiting : decision_.plan.waiting) {
      if (waiting.job_id == job_id) return waiting.message;
    }
    return "";
  }
  void Reset(JobSettings settings, uint64_t job_id) {
    world_.draft().EditJob(job_id).settings =
        std::make_shared<const JobSettings>(std::move(settings));
  }

  World world_{kWall - kNow};
  absl::Duration clock_set_by_;  // the wall clock, by somebody
  Decision decision_;
};

TEST_F(QueueTest, ProjectsOfEqualPastTakeTurns) {
  world_.AddWorker("a", 4);
  for (int i = 0; i < 3; ++i) Add("vision");
  for (int i = 0; i < 3; ++i) Add("audio");
  EXPECT_THAT(Placed(), ElementsAre(4, 1, 5, 2));
}

TEST_F(QueueTest, WeightsDivideTheSlots) {
  world_.AddWorker("a", 4);
  world_.draft().EditProject("vision").weight = 3;
  for (int i = 0; i < 4; ++i) Add("audio");
  for (int i = 0; i < 4; ++i) Add("vision");
  EXPECT_THAT(Placed(), ElementsAre(1, 5, 6, 7));
}

TEST_F(QueueTest, WhoHasUsedMoreWaitsLonger) {
  world_.AddWorker("a", 2);
  world_.draft().EditProject("audio").used = {.slot_seconds = 1e6, .at = kWall};
  for (int i = 0; i < 2; ++i) Add("audio");
  for (int i = 0; i < 2; ++i) Add("vision");
  EXPECT_THAT(Placed(), ElementsAre(3, 4));
  EXPECT_THAT(Placed(absl::Hours(24 * 365)), ElementsAre(3, 1)) << "long ago: they take turns";
}

TEST_F(QueueTest, WhoSetsTheWallClockChangesNobodysShare) {
  world_.AddWorker("a", 2);
  world_.draft().EditProject("audio").used = {.slot_seconds = 1e6, .at = kWall};
  world_.draft().EditProject("vision").used = {.slot_seconds = 1, .at = kWall - absl::Hours(1)};
  for (int i = 0; i < 2; ++i) Add("audio");
  for (int i = 0; i < 2; ++i) Add("vision");
  for (const absl::Duration by : {absl::Hours(24 * 365), -absl::Hours(24 * 365)}) {
    clock_set_by_ = by;
    EXPECT_THAT(Placed(), ElementsAre(3, 4)) << by;
  }
  EXPECT_THAT(Placed(absl::Hours(24 * 365)), ElementsAre(3, 1)) << "long ago: they take turns";
}

TEST_F(QueueTest, PriorityComesBeforeShares) {
  world_.AddWorker("a", 1);
  world_.draft().EditProject("audio").used = {.slot_seconds = 1e6, .at = kWall};
  Add("vision");
  Add("audio", "ann", 1, 5);
  EXPECT_THAT(Placed(), ElementsAre(2));
}

TEST_F(QueueTest, AProjectStaysWithinItsSlotsAndSaysSo) {
  world_.AddWorker("a", 8);
  world_.draft().EditProject("vision").quota.slots = 3;
  Add("vision", "ann", 2);
  Add("vision", "bob", 2);
  Add("vision", "cyd", 1);  // would fit, but it is not its turn
  Add("audio", "ann", 4);
  EXPECT_THAT(Placed(), ElementsAre(4, 1));
  EXPECT_THAT(MessageOf(2), HasSubstr("project vision holds 2 of its 3 slots"));
}

TEST_F(QueueTest, AUserOverQuotaHoldsUpNobodyElse) {
  world_.AddWorker("a", 8);
  world_.draft().EditProject("vision").each_user.slots = 2;
  Add("vision", "ann", 2);
  Add("vision", "ann", 2);
  Add("vision", "bob", 2);
  EXPECT_THAT(Placed(), ElementsAre(1, 3));
  EXPECT_THAT(MessageOf(2), HasSubstr("user ann in project vision holds 2 of its 2 slots"));
}

// kubernetes-sigs/kueue#6947, "Inadmissible Workload Blocks ClusterQueue": a workload that the
// quota can never admit stands first, and those behind it that fit are not looked at.
TEST_F(QueueTest, Kueue6947AJobLargerThanALoweredQuotaHoldsUpNobody) {
  world_.AddWorker("a", 8);
  world_.draft().EditProject("vision").quota.slots = 8;
  world_.draft().EditProject("vision").each_user.slots = 8;
  Add("vision", "ann", 8);
  Add("vision", "ann");
  Add("vision", "bob");
  EXPECT_THAT(Placed(), ElementsAre(1));
  world_.draft().EditProject("vision").quota.slots = 4;
  EXPECT_THAT(Placed(), ElementsAre(2, 3));
  EXPECT_THAT(MessageOf(1), HasSubstr("until the quota is raised"));
  world_.draft().EditProject("vision").quota.slots = 8;
  world_.draft().EditProject("vision").each_user.slots = 4;
  EXPECT_THAT(Placed(), ElementsAre(2, 3));
  EXPECT_THAT(MessageOf(1), HasSubstr("user ann in project vision"));
}

TEST_F(QueueTest, AnElasticJobStartsWithinItsQuota) {
  world_.AddWorker("a", 8);
  world_.draft().EditProject("vision").quota.slots = 5;
  JobSettings settings = World::Settings(2, 8);
  settings.project = "vision";
  world_.AddJob(settings);
  ASSERT_THAT(Placed(), ElementsAre(1));
  EXPECT_EQ(decision_.plan.place[0].ranks.size(), 5u);
}

TEST_F(QueueTest, AnArrayRunsSoManyAtATime) {
  world_.AddWorker("a", 8);
  for (uint32_t i = 0; i < 4; ++i) {
    Add("vision").array = {.array_id = 1, .index = i, .at_a_time = 2};
  }
  Add("vision");
  EXPECT_THAT(Placed(), ElementsAre(1, 2, 5));
  EXPECT_THAT(MessageOf(3), HasSubstr("array 1: at most 2"));
  world_.Place(1, {"a"}, JobState::kRunning);
  EXPECT_THAT(Placed(), ElementsAre(2, 5));
}

TEST_F(QueueTest, AHeldJobWaitsAndStandsInNobodysWay) {
  world_.AddWorker("a", 1);
  Add("vision").held = true;
  Add("vision");
  EXPECT_THAT(Placed(), ElementsAre(2));
  EXPECT_THAT(MessageOf(1), HasSubstr("muster release 1"));
}

TEST_F(QueueTest, AJobWaitsForItsBeginAndTheSchedulerForThatMoment) {
  world_.AddWorker("a", 1);
  JobSettings settings = World::Settings(1);
  settings.scheduling.begin = kWall + absl::Minutes(5);
  world_.AddJob(settings);
  EXPECT_THAT(Placed(), IsEmpty());
  EXPECT_EQ(decision_.due_at, kNow + absl::Minutes(5));
  EXPECT_THAT(MessageOf(1), HasSubstr("not before 2023-11-14T22:18:20"));
  EXPECT_THAT(Placed(absl::Minutes(5)), ElementsAre(1));
}

TEST_F(QueueTest, AJobIsNotPlacedAfterItsDeadline) {
  world_.AddWorker("a", 1);
  JobSettings settings = World::Settings(1);
  settings.scheduling.deadline = kWall;
  world_.AddJob(settings);
  Add("vision");
  EXPECT_THAT(Placed(), ElementsAre(2));
  EXPECT_THAT(MessageOf(1), HasSubstr("its deadline, 2023-11-14T22:13:20Z, has passed"));
}

TEST_F(QueueTest, AJobThatRanAsLongAsItMayIsNotPlacedAgain) {
  world_.AddWorker("a", 1);
  JobSettings settings = World::Settings(1);
  settings.scheduling.max_run_time = absl::Minutes(9);
  world_.AddJob(settings);
  world_.Place(1, {"a"}, JobState::kRunning);
  Attempt& attempt = world_.draft().EditAttempt(1);
  attempt.started = kWall - absl::Minutes(9);
  attempt.ended = kWall;
  world_.draft().EditJob(1).state = JobState::kPending;
  EXPECT_THAT(Placed(), IsEmpty());
  EXPECT_THAT(MessageOf(1), HasSubstr("it ran 9m, as long as it may"));
}

TEST_F(QueueTest, AJobWaitsForTheJobsThatItComesAfter) {
  world_.AddWorker("a", 4);
  Add("vision");
  world_.Place(1, {"a"}, JobState::kRunning);
  for (const auto on : {SchedulingSettings::On::kSuccess, SchedulingSettings::On::kFailure,
                        SchedulingSettings::On::kEnd}) {
    JobSettings settings = World::Settings(1);
    settings.scheduling.after = {{.job_id = 1, .on = on}};
    world_.AddJob(settings);
  }
  EXPECT_THAT(Placed(), IsEmpty());
  EXPECT_THAT(MessageOf(2), HasSubstr("waits for the success of job 1"));
  EXPECT_THAT(MessageOf(3), HasSubstr("waits for the failure of job 1"));
  world_.draft().EditAttempt(1).ended = kWall;
  world_.draft().EditJob(1).state = JobState::kSucceeded;
  EXPECT_THAT(Placed(), ElementsAre(2, 4));
  world_.draft().EditJob(1).state = JobState::kFailed;
  EXPECT_THAT(Placed(), ElementsAre(3, 4));
}

// Each end of a task costs the same, however many tasks there are and however many jobs wait for
// all of them.
TEST_F(QueueTest, ThousandsOfJobsWaitForAnArrayOfThousands) {
  constexpr uint64_t kTasks = 4000;
  for (uint64_t id = 1; id <= kTasks; ++id) Add("vision").array = {.array_id = 1, .index = 0};
  for (const auto on : {SchedulingSettings::On::kSuccess, SchedulingSettings::On::kEnd}) {
    JobSettings settings = World::Settings(1);
    settings.scheduling.after = {{.job_id = 1, .on = on}};
    for (uint64_t i = 0; i < kTasks / 2; ++i) world_.AddJob(settings);
  }
  world_.AddWorker("a", 1);
  world_.view();
  auto snapshot = world_.draft().Finish();
  Scheduler scheduler;
  const ScheduleContext context{.now = kNow, .wall = kWall};
  for (uint64_t id = 1; id <= kTasks; ++id) {
    const Decision decision = scheduler.Decide(*snapshot, context);
    ASSERT_EQ(decision.plan.place.size(), 1u);
    ASSERT_EQ(decision.plan.place[0].job_id, id);
    Draft draft(*snapshot);
    draft.EditJob(id).state = JobState::kSucceeded;
    snapshot = draft.Finish();
  }
  const Decision decision = scheduler.Decide(*snapshot, context);
  ASSERT_EQ(decision.plan.place.size(), 1u);
  EXPECT_EQ(decision.plan.place[0].job_id, kTasks + 1);
}

TEST_F(QueueTest, AChainOfJobsHasNoBound) {
  constexpr uint64_t kJobs = 100'000;
  for (uint64_t id = 1; id <= kJobs; ++id) {
    JobSettings settings = World::Settings(1);
    if (id > 1) settings.scheduling.after = {{.job_id = id - 1}};
    world_.AddJob(settings);
  }
  world_.AddWorker("a", 1);
  world_.view();
  auto snapshot = world_.draft().Finish();
  Scheduler scheduler;
  const ScheduleContext context{.now = kNow, .wall = kWall};
  EXPECT_EQ(scheduler.Decide(*snapshot, context).plan.place.at(0).job_id, 1u);
  Draft draft(*snapshot);
  draft.EditJob(1).state = JobState::kSucceeded;
  snapshot = draft.Finish();
  EXPECT_EQ(scheduler.Decide(*snapshot, context).plan.place.at(0).job_id, 2u);
}

TEST_F(QueueTest, AFurtherPoolCountsAfterTheWaitThatItSays) {
  world_.AddWorker("od", 2, SlotKind::kCpu, "ondemand");
  world_.AddWorker("sp", 1, SlotKind::kCpu, "spot").pulse.holders[0] = {.job_id = 9};
  JobSettings settings = World::Settings(1);
  settings.needs.pools = {{"spot", {}}, {"ondemand", absl::Minutes(10)}};
  world_.AddJob(settings).submitted = kWall;
  EXPECT_THAT(Placed(absl::Minutes(9)), IsEmpty());
  EXPECT_EQ(decision_.due_at, kNow + absl::Minutes(10));
  ASSERT_THAT(Placed(absl::Minutes(10)), ElementsAre(1));
  EXPECT_EQ(decision_.plan.place[0].ranks[0].worker, "od");
  EXPECT_THAT(decision_.plan.place[0].reason, HasSubstr("of pool ondemand"));
}

TEST_F(QueueTest, WhoSetsTheWallClockOpensAndClosesNoFurtherPool) {
  world_.AddWorker("od", 2, SlotKind::kCpu, "ondemand");
  world_.AddWorker("sp", 1, SlotKind::kCpu, "spot").pulse.holders[0] = {.job_id = 9};
  JobSettings settings = World::Settings(1);
  settings.needs.pools = {{"spot", {}}, {"ondemand", absl::Minutes(10)}};
  world_.AddJob(settings).submitted = kWall;
  clock_set_by_ = absl::Hours(10'000);
  EXPECT_THAT(Placed(absl::Minutes(9)), IsEmpty());
  EXPECT_EQ(decision_.due_at, kNow + absl::Minutes(10));
  clock_set_by_ = -absl::Hours(10'000);
  EXPECT_THAT(Placed(absl::Minutes(9)), IsEmpty());
  EXPECT_EQ(decision_.due_at, kNow + absl::Minutes(10));
  EXPECT_THAT(Placed(absl::Minutes(10)), ElementsAre(1));
}

// Two jobs alike; the first one had a place, made way, and waits anew. Whoever asked only for the
// first one's pools kept the second one out of the pool that it had waited for.
TEST_F(QueueTest, AJobThatCameBackDoesNotKeepOthersLikeItFromTheirFurtherPool) {
  world_.AddWorker("od", 2, SlotKind::kCpu, "ondemand");
  world_.AddWorker("sp", 1, SlotKind::kCpu, "spot").pulse.holders[0] = {.job_id = 9};
  JobSettings settings = World::Settings(1);
  settings.needs.pools = {{"spot", {}}, {"ondemand", absl::Minutes(10)}};
  for (int i = 0; i < 2; ++i) world_.AddJob(settings).submitted = kWall;
  world_.Place(1, {"sp"}, JobState::kPending);
  Attempt& attempt = world_.draft().EditAttempt(1);
  attempt.failure_class = FailureClass::kPreempted;
  attempt.ended = kWall + absl::Minutes(5);
  world_.draft().AddEvent({.job_id = 1,
                           .time = attempt.ended,
                           .from = JobState::kRecovering,
                           .to = JobState::kPending,
                           .reason = Reason::kAttemptCleared,
                           .attempt = 1});
  Scheduler scheduler;
  const auto placed = [&](absl::Duration later) {
    return scheduler.Decide(world_.view(), {.now = kNow + later, .wall = kWall + later})
        .plan.place.size();
  };
  EXPECT_EQ(placed(absl::Minutes(9)), 0u);
  EXPECT_THAT(Placed(absl::Minutes(10)), ElementsAre(2));
  EXPECT_EQ(placed(absl::Minutes(10)), 1u) << "time alone has changed it";
  EXPECT_EQ(decision_.due_at, kNow + absl::Minutes(15));
  EXPECT_EQ(placed(absl::Minutes(15)), 2u);
}

TEST_F(QueueTest, AJobThatIsResizedOrFailsKeepsTheWaitThatItEarned) {
  world_.AddJob(World::Settings(1)).submitted = kWall;
  const auto move = [&](JobState from, JobState to, Reason reason, int minute) {
    world_.draft().AddEvent({.job_id = 1,
                             .time = kWall + absl::Minutes(minute),
                             .from = from,
                             .to = to,
                             .reason = reason,
                             .attempt = world_.view().FindJob(1)->attempt});
    world_.draft().EditJob(1).state = to;
  };
  const auto waited = [&](int minute) {
    return absl::ToInt64Minutes(Waited(*world_.view().FindJob(1), kWall + absl::Minutes(minute)));
  };
  EXPECT_EQ(waited(7), 7);
  world_.Place(1, {"a"}, JobState::kPending);
  move(JobState::kPending, JobState::kStarting, Reason::kPlaced, 10);
  EXPECT_EQ(waited(20), 10);
  world_.draft().EditAttempt(1).reason = Reason::kResized;
  world_.draft().EditAttempt(1).failure_class = FailureClass::kPreempted;
  move(JobState::kStarting, JobState::kRecovering, Reason::kResized, 25);
  EXPECT_EQ(waited(29), 10);
  move(JobState::kRecovering, JobState::kPending, Reason::kAttemptCleared, 30);
  EXPECT_EQ(waited(31), 11);
  world_.draft().EditAttempt(1).reason = Reason::kPreemptedByJob;
  EXPECT_EQ(waited(31), 1) << "who made way waits anew";
  world_.draft().EditAttempt(1).reason = Reason::kRankFailed;
  world_.draft().EditAttempt(1).failure_class = FailureClass::kRankKilled;
  EXPECT_EQ(waited(31), 11);
  world_.Place(1, {"a"}, JobState::kPending);
  move(JobState::kPending, JobState::kStarting, Reason::kPlaced, 32);
  world_.draft().EditAttempt(1).failure_class = FailureClass::kHang;
  move(JobState::kStarting, JobState::kRecovering, Reason::kNoProgress, 40);
  move(JobState::kRecovering, JobState::kPending, Reason::kAttemptCleared, 41);
  EXPECT_EQ(waited(44), 15) << "10, 2 and 3";
  move(JobState::kPending, JobState::kSuspended, Reason::kSuspendDone, 45);
  move(JobState::kSuspended, JobState::kPending, Reason::kResumed, 50);
  EXPECT_EQ(waited(51), 1);
}

TEST_F(QueueTest, AWaitIsAsLongAsItWasByTheLedger) {
  Job& job = world_.AddJob(World::Settings(1));
  job.submitted = kWall + absl::Hours(5);  // somebody sets the clock back afterwards
  world_.draft().AddEvent({.job_id = 1,
                           .time = kWall + absl::Hours(5),
                           .from = JobState::kPending,
                           .to = JobState::kPending,
                           .reason = Reason::kSubmitted,
                           .at = kWall});
  const auto waited = [&](int minute) {
    return absl::ToInt64Minutes(Waited(*world_.view().FindJob(1), kWall + absl::Minutes(minute)));
  };
  EXPECT_EQ(waited(7), 7);
  world_.draft().AddEvent({.job_id = 1,
                           .time = kWall - absl::Hours(5),
                           .from = JobState::kPending,
                           .to = JobState::kStarting,
                           .reason = Reason::kPlaced,
                           .at = kWall + absl::Minutes(8)});
  world_.draft().EditJob(1).state = JobState::kStarting;
  EXPECT_EQ(waited(20), 8);
}

TEST_F(QueueTest, TheFirstPoolIsPreferredAndAGangIsNotSplitOverPools) {
  world_.AddWorker("od", 2, SlotKind::kCpu, "ondemand");
  Worker& spot = world_.AddWorker("sp", 2, SlotKind::kCpu, "spot");
  JobSettings settings = World::Settings(2);
  settings.needs.pools = {{"spot", {}}, {"ondemand", {}}};
  world_.AddJob(settings);
  ASSERT_THAT(Placed(), ElementsAre(1));
  EXPECT_EQ(decision_.plan.place[0].ranks[0].worker, "sp");
  spot.pulse.holders[0] = {.job_id = 9};
  ASSERT_THAT(Placed(), ElementsAre(1));
  EXPECT_EQ(decision_.plan.place[0].ranks[1].worker, "od");
  settings.needs.min_ranks = settings.needs.max_ranks = 3;
  Reset(settings, 1);
  EXPECT_THAT(Placed(), IsEmpty());
}

TEST_F(QueueTest, OnePlanIsBounded) {
  world_.AddWorker("a", 8);
  for (int i = 0; i < 8; ++i) Add("vision");
  ScheduleContext context{.now = kNow, .wall = kWall};
  context.settings.max_placements = 3;
  const Decision decision = Schedule(world_.view(), context);
  EXPECT_EQ(decision.plan.place.size(), 3u);
  EXPECT_EQ(decision.due_at, kNow) << "the rest follows at once";
}

TEST_F(QueueTest, OnlyTheFirstOnesInLineAreToldWhyTheyWait) {
  world_.AddWorker("a", 1);
  for (int i = 0; i < 300; ++i) Add(absl::StrCat("project-", i % 7));
  Placed();
  EXPECT_EQ(decision_.plan.waiting.size(), ScheduleSettings().max_messages);
}

}  // namespace
}  // namespace muster::controller
