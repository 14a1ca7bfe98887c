// Each stage of a look of the scheduler by itself. What they come to together: scheduler_test,
// pools_test, resize_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "controller/policy/placement/placement.h"
#include "controller/policy/queue/queue_order.h"
#include "controller/policy/stages/admit.h"
#include "controller/policy/stages/backfill_reserved.h"
#include "controller/policy/stages/fit.h"
#include "controller/policy/stages/grow.h"
#include "controller/policy/stages/hold_back.h"
#include "controller/policy/stages/reserve.h"
#include "controller/policy/stages/round.h"
#include "controller/policy/stages/wait_reason.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StagesTest : public ::testing::Test {
 protected:
  StagesTest() {
    context_.now = absl::Hours(1);
    context_.wall = absl::UnixEpoch() + absl::Hours(1);
  }

  // The indexes of the world as it is now, and a look that begins.
  Round& Begin() {
    const Snapshot& snapshot = world_.view();
    const absl::Time now = snapshot.LedgerTime(context_.now);
    snapshot.workers.ForEach(
        [&](const Worker& worker) { index_.Put(worker, now, context_.settings.incident_window); });
    snapshot.jobs.ForEach([&](const Job& job) {
      queue_.Put(snapshot, job.id, &job, context_);
      running_.Put(snapshot, job.id, &job);
    });
    round_.emplace(
        RoundInput{snapshot, context_, index_, queue_, running_, considered_, further_looks_});
    walk_.emplace(queue_, [](const std::string&) { return Standing(); });
    return *round_;
  }
  // The next job of the queue, as the first stage lets it pass.
  std::optional<Candidate> Next() {
    const QueueWalk::Step step = walk_->Next();
    EXPECT_NE(step.group, nullptr);
    std::optional<Candidate> candidate = AdmitToRound(*round_, step.job_id, *step.group);
    if (candidate.has_value()) {
      candidate->max_ranks = candidate->needs().max_ranks;
      candidate->partitions = round_->PartitionsOf(candidate->job);
    }
    return candidate;
  }
  uint32_t FreeSlots() {
    uint32_t slots = 0;
    for (size_t at = 0; at < index_.partitions(); ++at) slots += index_.partition(at).free_slots;
    return slots;
  }
  // The job has run with one rank on slot 0 of the worker for ten minutes, and has just saved.
  void RunOn(const std::string& worker, uint64_t job_id) {
    Attempt attempt;
    attempt.number = 1;
    attempt.started = context_.wall - absl::Minutes(10);
    Rank rank;
    rank.worker = worker;
    rank.slots = {0};
    const JobNeeds needs = world_.draft().view().FindJob(job_id)->settings->needs;
    HoldSlots(world_.draft().EditPulse(world_.view().FindWorker(worker)->id), needs, job_id, 1,
              rank);
    attempt.ranks.push_back(std::move(rank));
    world_.draft().AddAttempt(job_id, std::move(attempt));
    const uint64_t saved = world_.draft()
                               .AddCheckpoint({.job_id = job_id,
                                               .attempt = 1,
                                               .state = CheckpointState::kVerified,
                                               .path = "/c",
                                               .created = context_.wall})
                               .id;
    Job& job = world_.draft().EditJob(job_id);
    job.state = JobState::kRunning;
    job.checkpoints.push_back(saved);
  }
  static std::vector<uint64_t> WorkersOf(const std::vector<Grant>& grants) {
    std::vector<uint64_t> workers;
    for (const Grant& grant : grants) workers.push_back(grant.worker_id);
    return workers;
  }

  World world_;
  ScheduleContext context_;
  WorkerIndex index_;
  JobQueue queue_;
  RunningJobs running_;
  Considered considered_;
  FurtherLooks further_looks_;
  std::optional<Round> round_;
  std::optional<QueueWalk> walk_;
};

TEST_F(StagesTest, AdmitLeavesOutALongBackOffAndKeepsThePlaceOfAShortOne) {
  world_.AddWorker("a", 1);
  const uint64_t far = world_.AddJob(World::Settings(1)).id;
  const uint64_t near = world_.AddJob(World::Settings(1)).id;
  world_.draft().EditJob(far).not_before_at = context_.now + absl::Hours(1);
  world_.draft().EditJob(near).not_before_at = context_.now + absl::Seconds(1);
  Round& round = Begin();
  JobGroup group;
  group.demand = std::make_unique<Demand>(world_.view().FindJob(far)->settings->needs);
  EXPECT_FALSE(AdmitToRound(round, far, group).has_value());
  const auto waiting = AdmitToRound(round, near, group);
  ASSERT_TRUE(waiting.has_value());
  EXPECT_TRUE(waiting->reserve_only);
}

TEST_F(StagesTest, HoldBackNamesTheQuotaAndCapsAnElasticGangByIt) {
  world_.AddWorker("a", 8);
  Project& project = world_.draft().EditProject("p");
  project.quota.slots = 3;
  JobSettings elastic = World::Settings(1, 8);
  JobSettings large = World::Settings(4);
  elastic.project = large.project = "p";
  world_.AddJob(elastic);
  const uint64_t over = world_.AddJob(large).id;
  Round& round = Begin();
  const auto first = Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(HoldBack(round, *walk_, *first));
  EXPECT_EQ(RanksWithinQuotas(round, *first), 3u);
  const auto second = Next();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(HoldBack(round, *walk_, *second));
  ASSERT_THAT(round.decision.plan.waiting, SizeIs(1));
  EXPECT_EQ(round.decision.plan.waiting[0].job_id, over);
  EXPECT_THAT(round.decision.plan.waiting[0].message, HasSubstr("over quota"));
}

TEST_F(StagesTest, FitAvoidsWorkersThatItFailedOnOnlyForAsLargeAGang) {
  const uint64_t a = world_.AddWorker("a", 2).id;
  const uint64_t b = world_.AddWorker("b", 2).id;
  world_.AddJob(World::Settings(1, 4));
  Round& round = Begin();
  auto candidate = Next();
  ASSERT_TRUE(candidate.has_value());
  candidate->failed_on = {"a"};
  const int partition = candidate->partitions.front();
  const std::vector<Grant> elsewhere = Fit(round, *candidate, partition, 2);
  EXPECT_THAT(WorkersOf(elsewhere), ElementsAre(b));
  GiveBack(index_, candidate->demand().kind(), elsewhere);
  const std::vector<Grant> all = Fit(round, *candidate, partition, 4);
  EXPECT_THAT(WorkersOf(all), ::testing::UnorderedElementsAre(a, b));
}

TEST_F(StagesTest, StartPutsTheGangIntoThePlanAndTheEndOfTheLookGivesAllBack) {
  world_.AddWorker("a", 2);
  const uint64_t id = world_.AddJob(World::Settings(2)).id;
  Round& round = Begin();
  const auto candidate = Next();
  ASSERT_TRUE(candidate.has_value());
  const int partition = candidate->partitions.front();
  EXPECT_TRUE(Start(round, *walk_, *candidate, partition, Fit(round, *candidate, partition, 2)));
  ASSERT_THAT(round.decision.plan.place, SizeIs(1));
  EXPECT_EQ(round.decision.plan.place[0].job_id, id);
  EXPECT_THAT(round.decision.plan.place[0].reason, HasSubstr("2 ranks (2 to 2 wanted) on a: 2"));
  EXPECT_EQ(FreeSlots(), 0u);
  round.GiveBackAll();
  EXPECT_EQ(FreeSlots(), 2u);
}

TEST_F(StagesTest, AReservationKeepsFreeSlotsAndAGangThatEndsBeforeItMayUseThem) {
  world_.AddWorker("a", 1);
  world_.AddWorker("b", 1);
  JobSettings timed = World::Settings(1);
  timed.scheduling.expected_run_time = absl::Hours(2);
  const uint64_t runs = world_.AddJob(timed).id;
  RunOn("a", runs);
  const uint64_t wide = world_.AddJob(World::Settings(2)).id;
  world_.AddJob(World::Settings(1));
  Round& round = Begin();
  const auto first = Next();
  ASSERT_TRUE(first.has_value());
  const int partition = first->partitions.front();
  EXPECT_THAT(Fit(round, *first, partition, 2), IsEmpty());
  ReserveSlots(round, *first);
  EXPECT_EQ(round.partitions[partition].reserved_for, wide);
  ASSERT_THAT(round.decision.reserved, SizeIs(1));
  EXPECT_EQ(round.decision.reserved[0].start,
            context_.wall - absl::Minutes(10) + timed.scheduling.expected_run_time);
  EXPECT_EQ(FreeSlots(), 0u) << "the free one is kept";
  const auto next = Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(Fit(round, *next, partition, 1), IsEmpty());
  EXPECT_TRUE(CouldBackfill(round, *next, partition));
  const absl::Time start = round.decision.reserved[0].start;
  EXPECT_THAT(FitInReserved(round, *next, partition, start + absl::Seconds(1)), IsEmpty());
  EXPECT_THAT(FitInReserved(round, *next, partition, start), SizeIs(1));
}

TEST_F(StagesTest, GrowStopsAnElasticGangWhereSlotsAreFreeAndNotWhereTheyAreReserved) {
  world_.AddWorker("a", 1);
  world_.AddWorker("b", 1);
  const uint64_t id = world_.AddJob(World::Settings(1, 2)).id;
  RunOn("a", id);
  context_.settings.elastic.grow_after = absl::ZeroDuration();
  context_.settings.elastic.restart_cost = absl::ZeroDuration();
  Round& round = Begin();
  round.partitions.at(0).reserved_for = 99;
  GrowElastic(round);
  EXPECT_THAT(round.decision.plan.stop, IsEmpty());
  round.partitions.at(0).reserved_for = 0;
  GrowElastic(round);
  ASSERT_THAT(round.decision.plan.stop, SizeIs(1));
  EXPECT_EQ(round.decision.plan.stop[0].job_id, id);
  EXPECT_EQ(round.decision.plan.stop[0].why, StopGang::Why::kGrow);
  EXPECT_EQ(FreeSlots(), 1u);
}

TEST_F(StagesTest, WaitReasonsAreBoundedAndOnlyNewOnesAreTold) {
  context_.settings.max_messages = 2;
  const uint64_t known = world_.AddJob(World::Settings(1)).id;
  world_.draft().EditJob(known).message = "waits";
  const uint64_t other = world_.AddJob(World::Settings(1)).id;
  const uint64_t late = world_.AddJob(World::Settings(1)).id;
  Round& round = Begin();
  for (uint64_t id : {known, other, late}) {
    SetWaitReason(round, *world_.view().FindJob(id), "waits");
  }
  ASSERT_THAT(round.decision.plan.waiting, SizeIs(1));
  EXPECT_EQ(round.decision.plan.waiting[0].job_id, other);
  EXPECT_FALSE(HasWaitReasonsLeft(round));
}

}  // namespace
}  // namespace muster::controller
