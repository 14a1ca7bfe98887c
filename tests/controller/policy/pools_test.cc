// Jobs that may go to several pools: where they wait, and who waits behind them there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/policy/replay.h"

namespace muster::controller {
namespace {

class PoolsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    replay_.world.AddWorker("s", 2, SlotKind::kCpu, "spot");
    replay_.world.AddWorker("o", 2, SlotKind::kCpu, "ondemand");
  }
  static JobSettings Wants(uint32_t ranks, std::vector<std::string> pools, int32_t priority = 0) {
    JobSettings settings = World::Settings(ranks, ranks);
    settings.priority = priority;
    settings.needs.pools.clear();
    for (std::string& name : pools) settings.needs.pools.push_back({std::move(name), {}});
    return settings;
  }
  void Looks(int count) {
    for (int i = 0; i < count; ++i) replay_.Look();
  }
  JobState state(uint64_t id) { return replay_.job(id).state; }

  Replay replay_;
};

TEST_F(PoolsTest, BehindTheHeadOfOnePoolItIsTheHeadOfTheOther) {
  replay_.Submit(Wants(1, {"spot"}));
  replay_.Submit(Wants(1, {"ondemand"}));
  Looks(1);
  const uint64_t head = replay_.Submit(Wants(2, {"spot"}));
  const uint64_t either = replay_.Submit(Wants(2, {"spot", "ondemand"}));
  Looks(1);
  const uint64_t small = replay_.Submit(Wants(1, {"ondemand"}));
  Looks(3);
  EXPECT_EQ(state(head), JobState::kPending);
  EXPECT_EQ(state(either), JobState::kPending);
  EXPECT_EQ(state(small), JobState::kPending) << "it passed one that waits longer";
}

TEST_F(PoolsTest, AShortJobRunsInKeptSlotsOfOnePoolThoughThoseOfTheOtherAreTooFew) {
  replay_.world.AddWorker("large", 3, SlotKind::kCpu, "large");
  const auto runs_for = [](JobSettings settings, absl::Duration time) {
    settings.scheduling.expected_run_time = time;
    return settings;
  };
  replay_.Submit(runs_for(Wants(1, {"spot"}), absl::Hours(1)));
  replay_.Submit(runs_for(Wants(1, {"large"}), absl::Hours(1)));
  Looks(1);
  replay_.Submit(Wants(2, {"spot"}));   // one slot is kept for it
  replay_.Submit(Wants(3, {"large"}));  // two are kept for it
  Looks(1);
  const uint64_t brief = replay_.Submit(runs_for(Wants(2, {"spot", "large"}), absl::Minutes(1)));
  Looks(2);
  EXPECT_EQ(state(brief), JobState::kRunning);
}

TEST_F(PoolsTest, AnUrgentJobTakesRoomWhereItCanBeMade) {
  JobSettings firm = Wants(2, {"spot"});
  firm.scheduling.preemptible = false;
  replay_.Submit(firm);
  const uint64_t low = replay_.Submit(Wants(2, {"ondemand"}));
  Looks(1);
  const uint64_t urgent = replay_.Submit(Wants(2, {"spot", "ondemand"}, 5));
  Looks(2);
  EXPECT_EQ(state(urgent), JobState::kRunning);
  EXPECT_EQ(replay_.stops(low), 1u);
}

TEST_F(PoolsTest, ItWaitsInThePoolOfWhichItIsKnownWhenItCouldStart) {
  replay_.Submit(Wants(1, {"spot"}));
  JobSettings an_hour = Wants(1, {"ondemand"});
  an_hour.scheduling.expected_run_time = absl::Hours(1);
  replay_.Submit(an_hour);
  Looks(1);
  const uint64_t either = replay_.Submit(Wants(2, {"spot", "ondemand"}));
  Looks(1);
  // Nobody can tell when the rest of spot comes free: what is left of it is not kept.
  const uint64_t small = replay_.Submit(Wants(1, {"spot"}));
  const uint64_t other = replay_.Submit(Wants(1, {"ondemand"}));
  Looks(1);
  EXPECT_EQ(state(either), JobState::kPending);
  EXPECT_EQ(state(small), JobState::kRunning);
  EXPECT_EQ(state(other), JobState::kPending);
}

TEST_F(PoolsTest, WhereNobodyKnowsAnythingItWaitsInTheFirst) {
  replay_.Submit(Wants(1, {"spot"}));
  replay_.Submit(Wants(1, {"ondemand"}));
  Looks(1);
  replay_.Submit(Wants(2, {"spot", "ondemand"}));
  Looks(1);
  const uint64_t in_spot = replay_.Submit(Wants(1, {"spot"}));
  const uint64_t in_other = replay_.Submit(Wants(1, {"ondemand"}));
  Looks(1);
  EXPECT_EQ(state(in_spot), JobState::kPending);
  EXPECT_EQ(state(in_other), JobState::kRunning);
}

// Others of its project do not take what it will need again, while its other ranks leave nor while
// it backs off.
TEST_F(PoolsTest, AGangThatLostARankKeepsItsQuota) {
  replay_.world.draft().EditProject("p").quota.slots = 2;
  const uint64_t gang = replay_.Submit(Wants(2, {"spot"}));
  Looks(1);
  ASSERT_EQ(state(gang), JobState::kRunning);
  const uint64_t later = replay_.Submit(Wants(1, {"ondemand"}));
  Looks(1);
  replay_.LoseRank(gang, 1);
  Looks(1);
  EXPECT_EQ(state(later), JobState::kPending);
  replay_.BackOff(gang, Replay::kLook + absl::Seconds(20));
  Looks(1);
  EXPECT_EQ(state(later), JobState::kPending);
  Looks(1);
  EXPECT_EQ(state(gang), JobState::kRunning);
  replay_.Finish(gang);
  Looks(1);
  EXPECT_EQ(state(later), JobState::kRunning);
}

TEST_F(PoolsTest, AJobWithAReservationIsNotOvertakenInItsQuota) {
  replay_.world.draft().EditProject("p").quota.slots = 2;
  JobSettings others = Wants(2, {"spot"});
  others.project = "q";
  others.scheduling.expected_run_time = absl::Hours(1);
  const uint64_t other = replay_.Submit(others);
  Looks(1);
  const uint64_t first = replay_.Submit(Wants(2, {"spot"}));
  const uint64_t later = replay_.Submit(Wants(1, {"ondemand"}));
  Looks(3);
  EXPECT_EQ(state(later), JobState::kPending) << "with it the first one would be over its quota";
  replay_.Finish(other);
  Looks(1);
  EXPECT_EQ(state(first), JobState::kRunning);
}

// A service of another project may run for ever: the quota would lie idle as long.
TEST_F(PoolsTest, WhoWaitsForAnEndThatNobodyKnowsKeepsNoQuota) {
  replay_.world.draft().EditProject("p").quota.slots = 2;
  JobSettings service = Wants(2, {"spot"});
  service.project = "q";
  replay_.Submit(service);
  Looks(1);
  const uint64_t first = replay_.Submit(Wants(2, {"spot"}));
  const uint64_t later = replay_.Submit(Wants(1, {"ondemand"}));
  Looks(3);
  EXPECT_EQ(state(first), JobState::kPending);
  EXPECT_EQ(state(later), JobState::kRunning);
}

TEST_F(PoolsTest, AGangDoesNotGrowIntoAQuotaThatOthersWaitFor) {
  replay_.world.draft().EditProject("p").quota.slots = 3;
  const uint64_t runs = replay_.Submit(Wants(2, {"spot"}));
  JobSettings others = Wants(1, {"ondemand"});
  others.project = "q";
  const uint64_t other = replay_.Submit(others);
  JobSettings elastic = Wants(1, {"ondemand"});
  elastic.needs.max_ranks = 2;
  const uint64_t small = replay_.Submit(elastic);
  Looks(12);
  ASSERT_EQ(replay_.ranks(small), 1u);
  const uint64_t waits = replay_.Submit(Wants(2, {"spot"}));
  replay_.Save(small);
  replay_.Finish(other);
  Looks(12);
  EXPECT_EQ(replay_.ranks(small), 1u);
  replay_.Finish(runs);
  Looks(1);
  EXPECT_EQ(state(waits), JobState::kRunning);
}

}  // namespace
}  // namespace muster::controller
