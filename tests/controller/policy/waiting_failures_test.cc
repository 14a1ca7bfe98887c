// Failures of other schedulers in how jobs wait, replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kNow = absl::Hours(1);
const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);

std::vector<uint64_t> Placed(World& world) {
  std::vector<uint64_t> jobs;
  for (const PlaceGang& gang : Schedule(world.view(), {.now = kNow, .wall = kWall}).plan.place) {
    jobs.push_back(gang.job_id);
  }
  return jobs;
}

// volcano#5805: a gang that loses a member stays below its minimum for ever. Here it starts again
// whole or not at all; until it can it holds nothing, and the moment the member is back it goes
// first.
TEST(WaitingFailuresTest, AGangThatLostAMemberStartsAgainWholeOrNotAtAll) {
  World world;
  for (const char* name : {"a", "b", "c", "d"}) world.AddWorker(name, 1);
  world.AddJob(World::Settings(4));
  world.AddJob(World::Settings(1));
  world.Place(1, {"a", "b", "c", "d"}, JobState::kRunning);
  Worker& lost = world.draft().EditWorkerView(4);
  lost.presence = Presence::kLost;
  world.draft().EditAttempt(1).ended = kWall;
  for (uint32_t rank = 0; rank < 4; ++rank) world.draft().EditRank(1, rank).holds_slots = false;
  world.draft().EditJob(1).state = JobState::kPending;
  EXPECT_THAT(Placed(world), ElementsAre(2)) << "three workers are no place for four ranks";
  EXPECT_EQ(UseOf(*world.view().FindJob(1)).slots, 0u);
  lost.presence = Presence::kReady;
  EXPECT_THAT(Placed(world), ElementsAre(1));
}

// skypilot#10013: launches that wait for machines hold every launch slot, so that jobs which could
// start do not. Here who waits holds nothing, however many they are and however long.
TEST(WaitingFailuresTest, JobsThatWaitForMachinesHoldNothing) {
  World world;
  world.AddWorker("a", 2);
  for (int i = 0; i < 500; ++i) {
    JobSettings settings = World::Settings(i % 2 == 0 ? 1 : 64);
    settings.priority = 10;
    if (i % 2 == 0) settings.needs.pools = {{"spot", {}}};  // no such worker has come yet
    world.AddJob(settings);
  }
  const uint64_t small = world.AddJob(World::Settings(2)).id;
  EXPECT_THAT(Placed(world), ElementsAre(small));
  EXPECT_EQ(world.view().UseOf("").all.slots, 0u);
  EXPECT_EQ(world.view().UseOf("").all.queued, 501u);
}

}  // namespace
}  // namespace muster::controller
