#include "controller/policy/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/health/eligibility.h"
#include "tests/controller/policy/world.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kNow = absl::Hours(1);
const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);

Decision Look(World& world, absl::Duration later = absl::ZeroDuration()) {
  return Schedule(world.view(), {.now = kNow + later, .wall = kWall + later});
}

TEST(SchedulerTest, NothingToDoInAnEmptyWorld) {
  World world;
  const Plan plan = Look(world).plan;
  EXPECT_TRUE(plan.place.empty());
  EXPECT_TRUE(plan.waiting.empty());
}

TEST(SchedulerTest, AGangGoesToTheFewestWorkers) {
  World world;
  world.AddWorker("a", 1);
  world.AddWorker("b", 4);
  world.AddWorker("c", 2);
  world.AddJob(World::Settings(2));
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  ASSERT_EQ(plan.place[0].ranks.size(), 2u);
  // One worker is enough, and the smallest such one keeps the larger hole whole.
  EXPECT_EQ(plan.place[0].ranks[0].worker, "c");
  EXPECT_EQ(plan.place[0].ranks[1].worker, "c");
  EXPECT_EQ(plan.place[0].ranks[1].local_rank, 1u);
  EXPECT_EQ(plan.place[0].attempt, 1u);
  EXPECT_THAT(plan.place[0].reason, HasSubstr("2 ranks (2 to 2 wanted) on c: 2"));
}

TEST(SchedulerTest, AsManyRanksAsFitBetweenMinAndMax) {
  World world;
  world.AddWorker("a", 2);
  world.AddWorker("b", 1);
  world.AddJob(World::Settings(2, 8));
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].ranks.size(), 3u);
  EXPECT_EQ(plan.place[0].ranks[2].worker, "b");
}

TEST(SchedulerTest, HeldSlotsAreNotGivenTwice) {
  World world;
  world.AddWorker("a", 2).pulse.holders[0] = {.job_id = 9, .attempt = 1, .rank = 0};
  world.AddJob(World::Settings(1));
  world.AddJob(World::Settings(1));
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].ranks[0].slots, std::vector<uint32_t>{1});
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].job_id, 2u);
  EXPECT_THAT(plan.waiting[0].message, HasSubstr("needs 1 CPU slot in pool default: 0 of 2 free"));
}

// A worker that found no such data.
Worker& AddWithoutData(World& world, const std::string& name, uint32_t slots) {
  Worker& worker = world.AddWorker(name, slots);
  worker.pulse.checks_data = true;
  const DataView missing = {.number = 1,
                            .answered = true,
                            .seen_at = kNow,
                            .fault = "missing",
                            .error = "no file /data/a.npy",
                            .failures = 1};
  worker.pulse.data = std::make_shared<const DataViews>(DataViews{{"digits", missing}});
  return worker;
}

JobSettings WithData(uint32_t ranks) {
  JobSettings settings = World::Settings(ranks);
  settings.needs.data = "digits";
  return settings;
}

std::string WaitReasonOf(World& world) {
  const Plan plan = Look(world).plan;
  return plan.waiting.size() == 1 ? plan.waiting[0].message : "";
}

TEST(SchedulerTest, AWaitReasonBeginsWithDataThatAreMissing) {
  World world;
  AddWithoutData(world, "a", 2);
  AddWithoutData(world, "b", 2);
  world.AddJob(WithData(2));
  EXPECT_EQ(WaitReasonOf(world),
            "its data are not seen by worker a (missing: no file /data/a.npy) and 1 other; needs "
            "2 CPU slots in pool default: 0 of 0 free on 0 ready workers");
}

TEST(SchedulerTest, AWaitReasonBeginsWithACheckpointRootThatIsUnseen) {
  World world;
  world.AddWorker("a", 2);
  JobSettings settings = World::Settings(2);
  settings.needs.root = "/shared/ckpt";
  world.AddJob(std::move(settings));
  EXPECT_THAT(WaitReasonOf(world),
              StartsWith("its checkpoint root /shared/ckpt is not seen by worker a ("));
}

TEST(SchedulerTest, AWorkerThatWouldMakeNoDifferenceIsNamedBehindTheSlotsThatAreTaken) {
  World world;
  Worker& busy = world.AddWorker("a", 2);
  busy.pulse.holders[0] = {.job_id = 9};
  busy.pulse.holders[1] = {.job_id = 9};
  AddWithoutData(world, "b", 1);
  world.AddJob(WithData(2));
  EXPECT_EQ(WaitReasonOf(world),
            "needs 2 CPU slots in pool default: 0 of 2 free on 1 ready worker; its data are not "
            "seen by worker b (missing: no file /data/a.npy)");
}

TEST(SchedulerTest, AFreeWorkerThatWouldDoIsNamedFirst) {
  World world;
  Worker& busy = world.AddWorker("a", 2);
  busy.pulse.holders[0] = {.job_id = 9};
  busy.pulse.holders[1] = {.job_id = 9};
  AddWithoutData(world, "b", 2);
  world.AddJob(WithData(2));
  EXPECT_THAT(WaitReasonOf(world), StartsWith("its data are not seen by worker b (missing"));
}

TEST(SchedulerTest, TheHeadOfALineHoldsUpTheRestOfItOnly) {
  World world;
  world.AddWorker("a", 2).pulse.holders[0] = {.job_id = 9};
  world.AddWorker("g", 1, SlotKind::kGpu);
  world.AddWorker("p", 1, SlotKind::kCpu, "other");
  world.AddJob(World::Settings(2));
  world.AddJob(World::Settings(1));
  JobSettings gpu = World::Settings(1);
  gpu.needs.slot_kind = SlotKind::kGpu;
  world.AddJob(gpu);
  JobSettings other = World::Settings(1);
  other.needs.pools = {{"other", {}}};
  world.AddJob(other);
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 2u);
  EXPECT_EQ(plan.place[0].job_id, 3u);
  EXPECT_EQ(plan.place[1].job_id, 4u);
  ASSERT_EQ(plan.waiting.size(), 2u);
  EXPECT_THAT(plan.waiting[1].message, HasSubstr("waits behind job 1"));
}

TEST(SchedulerTest, AJobTooLargeForTheWorkersPresentHoldsUpNobody) {
  World world;
  world.AddWorker("a", 1);
  world.AddWorker("b", 1).lost = true;
  world.AddJob(World::Settings(2));
  world.AddJob(World::Settings(1));
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].job_id, 2u);
}

TEST(SchedulerTest, ARecoveringJobAndOneInBackoffKeepTheirPlaceAndNoMore) {
  World world;
  world.AddWorker("a", 1);
  world.AddWorker("b", 1);
  world.AddJob(World::Settings(1)).not_before_at = kNow + absl::Seconds(5);
  world.AddJob(World::Settings(1));
  world.AddJob(World::Settings(1));
  const Decision first = Look(world);
  ASSERT_EQ(first.plan.place.size(), 1u) << "one of the two slots is kept for job 1";
  EXPECT_EQ(first.plan.place[0].job_id, 2u);
  EXPECT_EQ(first.due_at, kNow + absl::Seconds(5));
  const Plan later = Look(world, absl::Seconds(5)).plan;
  ASSERT_EQ(later.place.size(), 2u);
  EXPECT_EQ(later.place[0].job_id, 1u);
  world.Place(1, {"a"}, JobState::kRecovering);
  const Plan recovering = Look(world, absl::Seconds(5)).plan;
  ASSERT_EQ(recovering.place.size(), 1u);
  EXPECT_EQ(recovering.place[0].job_id, 2u);
}

TEST(SchedulerTest, AShortJobMayUseTheSlotsThatAreKeptForABackOff) {
  World world;
  world.AddWorker("a", 1);
  world.AddJob(World::Settings(1)).not_before_at = kNow + absl::Seconds(20);
  JobSettings shorter = World::Settings(1);
  shorter.scheduling.expected_run_time = absl::Seconds(20);
  JobSettings longer = World::Settings(1);
  longer.scheduling.expected_run_time = absl::Seconds(21);
  world.AddJob(longer);
  const Plan waits = Look(world).plan;
  EXPECT_TRUE(waits.place.empty());
  ASSERT_EQ(waits.waiting.size(), 1u);
  EXPECT_THAT(waits.waiting[0].message,
              HasSubstr("1 of 1 free on 1 ready worker, 1 of them kept for job 1 until "
                        "2023-11-14 22:13 UTC"));
  world.AddJob(shorter);
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].job_id, 3u);
}

TEST(SchedulerTest, JobsThatBackOffKeepNoMoreSlotsThanTheirProjectMayHold) {
  World world;
  world.AddWorker("a", 6);
  world.draft().EditProject("p").quota.slots = 2;
  JobSettings crashes = World::Settings(2);
  crashes.project = "p";
  for (int i = 0; i < 3; ++i) world.AddJob(crashes).not_before_at = kNow + absl::Seconds(20);
  JobSettings other = World::Settings(4);
  other.project = "q";
  const uint64_t waits = world.AddJob(other).id;
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].job_id, waits);
}

TEST(SchedulerTest, TasksThatBackOffKeepNoMoreSlotsThanTheirArrayMayHold) {
  World world;
  world.AddWorker("a", 3);
  for (uint32_t i = 0; i < 3; ++i) {
    Job& task = world.AddJob(World::Settings(1));
    task.array = {.array_id = 1, .index = i, .at_a_time = 1};
    task.not_before_at = kNow + absl::Seconds(20);
  }
  const uint64_t waits = world.AddJob(World::Settings(2)).id;
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].job_id, waits);
}

// skypilot#10013 in another form: who waits for a time of its own must not hold what others could
// use meanwhile, nor its project's turn.
TEST(SchedulerTest, AJobInALongBackOffHoldsUpNobody) {
  World world;
  world.AddWorker("a", 2);
  world.draft().EditProject("p").quota.slots = 3;
  JobSettings settings = World::Settings(2);
  settings.project = "p";
  world.AddJob(settings).not_before_at = kNow + absl::Hours(20);
  settings = World::Settings(1);
  settings.project = "p";
  world.AddJob(settings);
  world.AddJob(settings);
  const Decision decision = Look(world);
  ASSERT_EQ(decision.plan.place.size(), 2u);
  EXPECT_EQ(decision.due_at, kNow + absl::Hours(20)) << "then it is its turn";
  const Plan then = Look(world, absl::Hours(20)).plan;
  ASSERT_EQ(then.place.size(), 1u);
  EXPECT_EQ(then.place[0].job_id, 1u);
}

TEST(SchedulerTest, PriorityGoesBeforeTheOrderOfSubmits) {
  World world;
  world.AddWorker("a", 1);
  world.AddJob(World::Settings(1));
  JobSettings urgent = World::Settings(1);
  urgent.priority = 1;
  world.AddJob(urgent);
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].job_id, 2u);
}

TEST(SchedulerTest, OnlyReadyWorkersWithTheLabelsGetWork) {
  World world;
  world.AddWorker("away", 1).pulse.connected = false;
  world.AddWorker("lost", 1).lost = true;
  world.AddWorker("suspect", 1).pulse.suspect = true;
  world.AddWorker("draining", 1).draining = true;
  world.AddWorker("other", 1).facts.labels = {{"zone", "b"}};
  JobSettings settings = World::Settings(1);
  settings.needs.selector = {{"zone", "a"}};
  world.AddJob(settings);
  EXPECT_TRUE(Look(world).plan.place.empty());
  world.AddWorker("right", 1).facts.labels = {{"zone", "a"}, {"more", "x"}};
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.place.size(), 1u);
  EXPECT_EQ(plan.place[0].ranks[0].worker, "right");
}

TEST(SchedulerTest, AMessageThatStandsIsNotRepeated) {
  World world;
  Job& job = world.AddJob(World::Settings(1));
  const Plan plan = Look(world).plan;
  ASSERT_EQ(plan.waiting.size(), 1u);
  job.message = plan.waiting[0].message;
  EXPECT_TRUE(Look(world).plan.waiting.empty());
}

TEST(CapacityTest, LostWorkersCountForWhatCouldEverFit) {
  World world;
  EXPECT_TRUE(CanEverFit(world.view(), World::Settings(100).needs, kNow).ok())
      << "nobody is known yet";
  world.AddWorker("a", 1);
  Worker& lost = world.AddWorker("b", 1);
  lost.lost = true;
  lost.pulse.last_seen_at = kNow - absl::Hours(23);
  EXPECT_TRUE(CanEverFit(world.view(), World::Settings(2).needs, kNow).ok());
  EXPECT_FALSE(CanEverFit(world.view(), World::Settings(2).needs, kNow + absl::Hours(2)).ok())
      << "lost for longer than a day";
  JobNeeds needs = World::Settings(3).needs;
  EXPECT_THAT(
      CanEverFit(world.view(), needs, kNow),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: needs 3 CPU slots")));
  needs.wait_for_capacity = true;
  EXPECT_TRUE(CanEverFit(world.view(), needs, kNow).ok());
  needs.wait_for_capacity = false;
  needs.pools = {{"nowhere", {}}};
  EXPECT_THAT(
      CanEverFit(world.view(), needs, kNow),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("refused: pool nowhere has no workers; those with workers: default")));
  needs.pools = {{"default", {}}};
  needs.wait_for_capacity = true;
  needs.selector = {{"zone", "a"}};
  needs.wait_for_capacity = false;
  EXPECT_THAT(CanEverFit(world.view(), needs, kNow),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("labels: zone=a")));
}

TEST(CapacityTest, ARefusalNamesWhatIsNeededAndWhatThereIs) {
  World world;
  Worker& worker = world.AddWorker("a", 2, SlotKind::kGpu);
  worker.facts.cpus = 8;
  worker.facts.memory_bytes = uint64_t{16} << 30;
  for (Slot& slot : worker.facts.slots) slot.device = "NVIDIA A100";
  JobNeeds fits = World::Settings(1).needs;
  fits.slot_kind = SlotKind::kGpu;
  fits.gpu_type = "a100";
  fits.cpus_per_rank = 8;
  fits.memory_per_rank = uint64_t{16} << 30;
  fits.selector = {};
  EXPECT_TRUE(CanEverFit(world.view(), fits, kNow).ok());
  const auto refusal = [&](auto edit) {
    JobNeeds needs = fits;
    edit(needs);
    const absl::Status status = CanEverFit(world.view(), needs, kNow);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(
      refusal([](JobNeeds& needs) { needs.gpu_type = "h100"; }),
      AllOf(HasSubstr("refused: needs 1 GPU slot (h100)"), HasSubstr("could give at most 0 ranks"),
            HasSubstr("one has at most 2 GPU slots (NVIDIA A100)")));
  EXPECT_THAT(refusal([](JobNeeds& needs) { needs.cpus_per_rank = 9; }),
              AllOf(HasSubstr("9 CPUs a rank"), HasSubstr(", 8 CPUs")));
  EXPECT_THAT(refusal([](JobNeeds& needs) { needs.memory_per_rank += 1; }),
              AllOf(HasSubstr("16385 MiB of memory a rank"), HasSubstr("16384 MiB of memory")));
  EXPECT_THAT(refusal([](JobNeeds& needs) {
                needs.selector = {{"zone", "b"}};
              }),
              AllOf(HasSubstr("labels: zone=b"), HasSubstr("; 0 have the labels")));
  EXPECT_THAT(refusal([](JobNeeds& needs) { needs.slots_per_rank = 3; }),
              HasSubstr("one has at most 2 GPU slots"));
  EXPECT_THAT(refusal([](JobNeeds& needs) { needs.exclude = {"a"}; }), HasSubstr("; 1 excluded"));
}

TEST(CapacityTest, APoolWithoutWorkersBesideOthersIsASlip) {
  World world;
  JobNeeds needs = World::Settings(1).needs;
  needs.pools = {{"defualt", {}}};
  EXPECT_TRUE(CanEverFit(world.view(), needs, kNow).ok());
  world.AddWorker("a", 1);
  EXPECT_THAT(
      CanEverFit(world.view(), needs, kNow),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("refused: pool defualt has no workers; those with workers: default")));
  needs.wait_for_capacity = true;
  EXPECT_TRUE(CanEverFit(world.view(), needs, kNow).ok());
}

}  // namespace
}  // namespace muster::controller
