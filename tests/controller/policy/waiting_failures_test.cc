// Failures of other schedulers in how jobs wait, replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/policy/scheduler.h"
#include "tests/controller/policy/replay.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kNow = absl::Hours(1);
const absl::Time kWall = absl::FromUnixSeconds(1'700'000'000);

std::vector<uint64_t> Placed(World& world) {
  std::vector<uint64_t> jobs;
  for (const PlaceGang& gang : Schedule(world.view(), {.now = kNow, .wall = kWall}).plan.place) {
    jobs.push_back(gang.job_id);
  }
  return jobs;
}

// volcano#5805: a gang that loses a member stays below its minimum for ever, since a younger pod
// got the member's slot. Here it starts again whole or not at all; until it can it holds nothing,
// and the moment there is room for all of it nobody younger is before it.
TEST(WaitingFailuresTest, AGangThatLostAMemberStartsAgainWholeOrNotAtAll) {
  Replay replay;
  for (const char* name : {"a", "b", "c", "d"}) replay.world.AddWorker(name, 1);
  const uint64_t gang = replay.Submit(World::Settings(4));
  replay.Look();
  ASSERT_EQ(replay.ranks(gang), 4u);
  const uint64_t younger = replay.Submit(World::Settings(1));
  replay.Look();
  EXPECT_EQ(replay.ranks(younger), 0u);
  replay.Lose("d");
  replay.Look();
  EXPECT_EQ(replay.ranks(younger), 1u) << "three workers are no place for four ranks";
  for (int look = 0; look < 5; ++look) {
    replay.Look();
    EXPECT_EQ(UseOf(replay.job(gang)).slots, 0u) << "all of it or nothing";
  }
  replay.Return("d");
  std::vector<uint64_t> later;
  for (int look = 0; look < 5; ++look) {
    later.push_back(replay.Submit(World::Settings(1)));
    replay.Look();
    EXPECT_EQ(replay.ranks(gang), 0u);
    for (uint64_t id : later) EXPECT_EQ(replay.ranks(id), 0u) << "its slots are kept";
  }
  replay.Finish(younger);
  replay.Look();
  EXPECT_EQ(replay.ranks(gang), 4u);
}

// A look is bounded, and urgent jobs that fit nowhere stand before all others: those behind them
// are reached all the same, by the looks that follow.
TEST(WaitingFailuresTest, UrgentJobsThatFitNowhereStarveNobody) {
  World world;
  world.AddWorker("a", 2);
  for (int i = 0; i < 20; ++i) {
    JobSettings settings = World::Settings(1);
    settings.priority = 10;
    settings.needs.selector = {{"rack", absl::StrCat(i)}};
    world.AddJob(settings);
  }
  const uint64_t last = world.AddJob(World::Settings(1)).id;
  ScheduleContext context{.now = kNow, .wall = kWall};
  context.settings.max_considered = 6;
  context.settings.max_messages = 0;
  Scheduler scheduler;
  Decision decision;
  int looks = 0;
  do {
    decision = scheduler.Decide(world.view(), context);
    ++looks;
    if (decision.plan.place.empty()) {
      EXPECT_EQ(decision.due_at, kNow + absl::Seconds(1));
    }
  } while (decision.plan.place.empty() && looks < 20);
  EXPECT_EQ(looks, 6) << "6 kinds by the first, 3 more by each that follows";
  ASSERT_EQ(decision.plan.place.size(), 1u);
  EXPECT_EQ(decision.plan.place[0].job_id, last);
  EXPECT_EQ(scheduler.Decide(world.view(), context).due_at, absl::InfiniteDuration())
      << "that was the end of the queue";
}

// Alike jobs, each of which a shorter one might overtake, are considered one by one.
TEST(WaitingFailuresTest, BehindMoreAlikeJobsThanARoundConsidersOthersAreReached) {
  World world;
  world.AddWorker("a", 2);
  world.AddWorker("b", 1, SlotKind::kCpu, "other");
  JobSettings runs = World::Settings(1);
  runs.scheduling.expected_run_time = absl::Hours(1);
  const uint64_t running = world.AddJob(runs).id;
  world.Place(running, {"a"}, JobState::kRunning);
  world.draft().EditAttempt(running).ranks[0].slots = {0};
  world.draft().EditWorker(1).pulse.holders[0] = {.job_id = running, .attempt = 1, .rank = 0};
  world.AddJob(World::Settings(2));
  for (int i = 0; i < 20; ++i) world.AddJob(World::Settings(1));
  JobSettings settings = World::Settings(1);
  settings.needs.pools = {{"other", {}}};
  const uint64_t last = world.AddJob(settings).id;
  ScheduleContext context{.now = kNow, .wall = kWall};
  context.settings.max_considered = 4;
  context.settings.max_messages = 0;
  Scheduler scheduler;
  Decision decision;
  for (int looks = 0; decision.plan.place.empty() && looks < 15; ++looks) {
    decision = scheduler.Decide(world.view(), context);
  }
  ASSERT_EQ(decision.plan.place.size(), 1u);
  EXPECT_EQ(decision.plan.place[0].job_id, last);
}

// What an earlier round has kept for a job beyond those that every round considers stays kept.
TEST(WaitingFailuresTest, ALongQueueDoesNotTakeWhatIsKeptInItsMiddle) {
  World world;
  world.AddWorker("a", 2);
  const uint64_t running = world.AddJob(World::Settings(1)).id;
  world.Place(running, {"a"}, JobState::kRunning);
  world.draft().EditAttempt(running).ranks[0].slots = {0};
  world.draft().EditWorker(1).pulse.holders[0] = {.job_id = running, .attempt = 1, .rank = 0};
  const auto add_misfit = [&world](int rack, int priority) {
    JobSettings settings = World::Settings(1);
    settings.priority = priority;
    settings.needs.selector = {{"rack", absl::StrCat(rack)}};
    world.AddJob(settings);
  };
  add_misfit(1, 10);
  add_misfit(2, 10);
  const uint64_t large = world.AddJob(World::Settings(2)).id;
  add_misfit(3, 0);
  const uint64_t small = world.AddJob(World::Settings(1)).id;
  ScheduleContext context{.now = kNow, .wall = kWall};
  context.settings.max_considered = 4;
  context.settings.max_messages = 0;
  Scheduler scheduler;
  for (int round = 0; round < 6; ++round) {
    const Decision decision = scheduler.Decide(world.view(), context);
    EXPECT_THAT(decision.plan.place, IsEmpty()) << "job " << small << ", round " << round;
    ASSERT_THAT(decision.reserved, SizeIs(1)) << "round " << round;
    EXPECT_EQ(decision.reserved[0].job_id, large);
  }
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
