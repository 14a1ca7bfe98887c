#include "controller/policy/autoscale/scale_demand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/policy/health/eligibility.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ScheduleContext kNow{.now = absl::Hours(1), .wall = absl::UnixEpoch() + absl::Hours(1)};

PoolScaling Scaling(const std::string& pool, uint32_t slots, uint32_t max) {
  PoolScaling scaling{.pool = pool, .max = max};
  scaling.facts.pool = pool;
  for (uint32_t i = 0; i < slots; ++i) {
    scaling.facts.slots.push_back({.index = i, .kind = SlotKind::kCpu});
  }
  return scaling;
}

JobSettings In(const std::string& pool, uint32_t min, uint32_t max = 0) {
  JobSettings settings = World::Settings(min, max);
  settings.needs.pools = {{pool, {}}};
  return settings;
}

class ScaleDemandTest : public ::testing::Test {
 protected:
  PoolDemand Demand(uint32_t more, const std::string& pool = "gpu") {
    auto demand = FindDemand(world_.view(), {{&gpu_, more, nullptr}, {&spot_, 8, nullptr}}, kNow);
    return demand[pool];
  }

  World world_;
  PoolScaling gpu_ = Scaling("gpu", 4, 10);
  PoolScaling spot_ = Scaling("spot", 2, 8);
};

TEST_F(ScaleDemandTest, NobodyIsLackedWhereNobodyWaits) {
  world_.AddWorker("g-0", 4, SlotKind::kCpu, "gpu");
  EXPECT_THAT(FindDemand(world_.view(), {{&gpu_, 10, nullptr}}, kNow), IsEmpty());
}

TEST_F(ScaleDemandTest, AGangLacksAsManyWorkersAsItFills) {
  world_.AddJob(In("gpu", 6));
  const PoolDemand demand = Demand(10);
  EXPECT_EQ(demand.shortage, 2u);
  EXPECT_THAT(demand.jobs, ElementsAre(1));
}

TEST_F(ScaleDemandTest, JobsShareWorkersToCome) {
  for (int i = 0; i < 4; ++i) world_.AddJob(In("gpu", 2));
  EXPECT_EQ(Demand(10).shortage, 2u);
}

TEST_F(ScaleDemandTest, WhatIsFreeIsUsedFirst) {
  world_.AddWorker("g-0", 4, SlotKind::kCpu, "gpu");
  world_.AddJob(In("gpu", 4));
  EXPECT_EQ(Demand(10).shortage, 0u);
  world_.AddJob(In("gpu", 4));
  EXPECT_EQ(Demand(10).shortage, 1u);
}

TEST_F(ScaleDemandTest, AGangThatWouldNotFitIsNotBroughtHalfItsWorkers) {
  world_.AddJob(In("gpu", 12));
  EXPECT_EQ(Demand(2).shortage, 0u);
  EXPECT_EQ(Demand(3).shortage, 3u);
}

TEST_F(ScaleDemandTest, AnElasticGangLacksItsFewestRanks) {
  world_.AddJob(In("gpu", 2, 40));
  EXPECT_EQ(Demand(10).shortage, 1u);
}

TEST_F(ScaleDemandTest, OtherPoolsJobsLackNobodyHere) {
  world_.AddJob(In("elsewhere", 2));
  EXPECT_EQ(Demand(10).shortage, 0u);
}

TEST_F(ScaleDemandTest, AFurtherPoolCountsOnceItsWaitIsOver) {
  JobSettings settings = In("gpu", 2);
  settings.needs.pools = {{"gpu", {}}, {"spot", absl::Hours(2)}};
  const uint64_t id = world_.AddJob(settings).id;
  world_.draft().AddEvent({.job_id = id,
                           .time = kNow.wall,
                           .reason = Reason::kSubmitted,
                           .at = absl::UnixEpoch() + kNow.now});
  EXPECT_EQ(Demand(0, "spot").shortage, 0u);
  ScheduleContext later = kNow;
  later.now += absl::Hours(3);
  later.wall += absl::Hours(3);
  auto demand = FindDemand(world_.view(), {{&gpu_, 0, nullptr}, {&spot_, 8, nullptr}}, later);
  EXPECT_EQ(demand["spot"].shortage, 1u);
}

TEST_F(ScaleDemandTest, HeldJobsLackNobody) {
  world_.AddJob(In("gpu", 2)).held = true;
  EXPECT_EQ(Demand(10).shortage, 0u);
}

TEST_F(ScaleDemandTest, JobsOverTheirQuotaLackNobody) {
  world_.draft().EditProject("").quota.slots = 3;
  world_.AddJob(In("gpu", 4));
  EXPECT_EQ(Demand(10).shortage, 0u);
}

TEST_F(ScaleDemandTest, LabelsAndCommandsAreThoseOfTheWorkersToCome) {
  JobSettings settings = In("gpu", 1);
  settings.needs.selector = {{"zone", "a"}};
  settings.needs.commands = true;
  world_.AddJob(settings);
  EXPECT_EQ(Demand(10).shortage, 0u);
  gpu_.facts.labels = {{"zone", "a"}};
  gpu_.facts.allows_commands = true;
  EXPECT_EQ(Demand(10).shortage, 1u);
}

TEST_F(ScaleDemandTest, ARootThatNobodyHasSeenThereIsNoObstacle) {
  JobSettings settings = In("gpu", 1);
  settings.needs.root = "/ckpt";
  world_.AddJob(settings);
  EXPECT_EQ(Demand(10).shortage, 1u);
}

TEST_F(ScaleDemandTest, ARootThatTheNewestThereDoesNotSeeBringsNobody) {
  JobSettings settings = In("gpu", 1);
  settings.needs.root = "/ckpt";
  world_.AddJob(settings);
  Worker& worker = world_.AddWorker("g-0", 4, SlotKind::kCpu, "gpu");
  auto roots = std::make_shared<RootViews>();
  (*roots)["/ckpt"] = {.message = "its marker is not there"};
  worker.pulse.roots = roots;
  EXPECT_EQ(Demand(10).shortage, 0u);
}

TEST_F(ScaleDemandTest, WhatOneThatCameWasSeenToHaveCountsMoreThanWhatIsSet) {
  world_.AddJob(In("gpu", 4));
  const WorkerFacts seen = Scaling("gpu", 2, 10).facts;
  auto demand = FindDemand(world_.view(), {{&gpu_, 10, &seen}}, kNow);
  EXPECT_EQ(demand["gpu"].shortage, 2u);
}

TEST_F(ScaleDemandTest, ALeavingWorkerIsTakenBackBeforeAnybodyComes) {
  Worker& worker = world_.AddWorker("g-0", 4, SlotKind::kCpu, "gpu");
  worker.cordoned = true;
  worker.cordon_reason = absl::StrCat(kScaleDownReason, "idle for 10m");
  world_.AddJob(In("gpu", 4));
  world_.AddJob(In("gpu", 4));
  const PoolDemand demand = Demand(10);
  EXPECT_THAT(demand.wanted_back, ElementsAre("g-0"));
  EXPECT_EQ(demand.shortage, 1u);
}

TEST_F(ScaleDemandTest, AWorkerThatAPersonDrainedIsNotTakenBack) {
  Worker& worker = world_.AddWorker("g-0", 4, SlotKind::kCpu, "gpu");
  worker.cordoned = true;
  worker.cordon_reason = "its fan is loud";
  world_.AddJob(In("gpu", 4));
  const PoolDemand demand = Demand(10);
  EXPECT_THAT(demand.wanted_back, IsEmpty());
  EXPECT_EQ(demand.shortage, 1u);
}

TEST(CouldHoldTest, TheWholeGangOnAsManyWorkersAsMayCome) {
  const PoolScaling gpu = Scaling("gpu", 4, 3);
  EXPECT_TRUE(CouldHold(gpu, In("gpu", 12).needs));
  EXPECT_FALSE(CouldHold(gpu, In("gpu", 13).needs));
  EXPECT_FALSE(CouldHold(gpu, In("spot", 1).needs));
}

}  // namespace
}  // namespace muster::controller
