#include "controller/policy/placement/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/base/rng.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

// Holds slots on one worker.
VictimCandidate Holds(uint64_t job_id, size_t worker, int64_t slots, int64_t cost,
                      int32_t priority = 0) {
  return {.job_id = job_id,
          .cost = cost,
          .priority = priority,
          .held = {{.worker = worker, .what = {.slots = slots, .cpus = slots}}}};
}

TEST(ChooseVictimsTest, TheLeastWorkIsLost) {
  const std::vector<WorkerResources> workers = {{.worker_id = 1}, {.worker_id = 2}};
  const std::vector<VictimCandidate> jobs = {Holds(1, 0, 1, 500), Holds(2, 1, 1, 20),
                                             Holds(3, 1, 1, 90)};
  EXPECT_THAT(ChooseVictims(workers, jobs, {}, 1), ElementsAre(1));
  EXPECT_THAT(ChooseVictims(workers, jobs, {}, 2), ElementsAre(1, 2));
}

TEST(ChooseVictimsTest, OneDearJobIsLeftWhereTwoCheapOnesAreLess) {
  const std::vector<WorkerResources> workers = {{.worker_id = 1}, {.worker_id = 2}};
  const std::vector<VictimCandidate> jobs = {Holds(1, 0, 2, 100), Holds(2, 1, 1, 40),
                                             Holds(3, 1, 1, 59)};
  EXPECT_THAT(ChooseVictims(workers, jobs, {}, 2), ElementsAre(1, 2));
}

TEST(ChooseVictimsTest, WhatIsFreeCounts) {
  const std::vector<WorkerResources> workers = {{.worker_id = 1, .slots = 1}, {.worker_id = 2}};
  EXPECT_THAT(ChooseVictims(workers, {Holds(1, 1, 1, 7)}, {}, 2), ElementsAre(0));
  EXPECT_THAT(ChooseVictims(workers, {Holds(1, 1, 1, 7)}, {}, 1), IsEmpty()) << "it fits already";
}

TEST(ChooseVictimsTest, NobodyIsTouchedWhenAllWouldNotSuffice) {
  const std::vector<WorkerResources> workers = {{.worker_id = 1}, {.worker_id = 2}};
  EXPECT_THAT(ChooseVictims(workers, {Holds(1, 0, 1, 1), Holds(2, 1, 1, 1)}, {}, 3), IsEmpty());
  // Two slots on two workers do not hold a rank of two slots.
  EXPECT_THAT(ChooseVictims(workers, {Holds(1, 0, 1, 1), Holds(2, 1, 1, 1)}, {.slots = 2}, 1),
              IsEmpty());
}

TEST(ChooseVictimsTest, TwoOnOneWorkerMakeRoomForARankOfTwoSlots) {
  const std::vector<WorkerResources> workers = {{.worker_id = 1}, {.worker_id = 2}};
  const std::vector<VictimCandidate> jobs = {Holds(1, 0, 1, 1), Holds(2, 1, 1, 10),
                                             Holds(3, 1, 1, 10)};
  EXPECT_THAT(ChooseVictims(workers, jobs, {.slots = 2}, 1), ElementsAre(1, 2));
}

TEST(ChooseVictimsTest, CpusAndMemoryCountToo) {
  const std::vector<WorkerResources> workers = {
      {.worker_id = 1, .slots = 4, .cpus = 1, .memory_bytes = 100}};
  const std::vector<VictimCandidate> jobs = {Holds(1, 0, 1, 5), Holds(2, 0, 3, 9)};
  EXPECT_THAT(ChooseVictims(workers, jobs, {.slots = 1, .cpus = 4}, 1), ElementsAre(1));
  EXPECT_THAT(ChooseVictims(workers, jobs, {.slots = 1, .memory_bytes = 101}, 1), IsEmpty());
}

TEST(ChooseVictimsTest, AmongEqualsTheLowerPriorityThenTheLaterSubmit) {
  const std::vector<WorkerResources> workers = {{.worker_id = 1}};
  EXPECT_THAT(
      ChooseVictims(workers, {Holds(1, 0, 1, 9), Holds(2, 0, 1, 9), Holds(3, 0, 1, 9, 5)}, {}, 1),
      ElementsAre(1));
  EXPECT_THAT(ChooseVictims(workers, {Holds(1, 0, 1, 9, -5), Holds(2, 0, 1, 9)}, {}, 1),
              ElementsAre(0));
  // Fewer jobs before lower priorities.
  EXPECT_THAT(
      ChooseVictims(workers, {Holds(1, 0, 1, 5, -5), Holds(2, 0, 1, 5, -5), Holds(3, 0, 2, 10)}, {},
                    2),
      ElementsAre(2));
}

// Small random worlds, against all subsets.
class RandomRoomsTest : public ::testing::Test {
 protected:
  uint64_t Draw(uint64_t below) { return DeriveSeed(7, 1, ++draws_) % below; }

  void Make() {
    workers_.clear();
    jobs_.clear();
    const size_t workers = 1 + Draw(4);
    for (size_t i = 0; i < workers; ++i) {
      workers_.push_back({.worker_id = i + 1,
                          .slots = static_cast<int64_t>(Draw(3)),
                          .cpus = static_cast<int64_t>(Draw(4))});
    }
    const size_t jobs = Draw(9);
    for (size_t i = 0; i < jobs; ++i) {
      VictimCandidate job{.job_id = i + 1,
                          .cost = static_cast<int64_t>(Draw(6)) * 10,
                          .priority = static_cast<int32_t>(Draw(3))};
      for (size_t worker = 0; worker < workers; ++worker) {
        if (Draw(2) == 0) continue;
        const int64_t slots = 1 + static_cast<int64_t>(Draw(3));
        job.held.push_back({.worker = worker, .what = {.slots = slots, .cpus = slots}});
      }
      jobs_.push_back(std::move(job));
    }
    rank_ = {.slots = 1 + static_cast<uint32_t>(Draw(2)), .cpus = static_cast<uint32_t>(Draw(3))};
    ranks_ = 1 + Draw(5);
  }

  uint32_t RanksWithout(uint32_t subset) const {
    std::vector<WorkerResources> workers = workers_;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      for (const VictimCandidate::Held& held : jobs_[i].held) {
        workers[held.worker].slots += held.what.slots;
        workers[held.worker].cpus += held.what.cpus;
      }
    }
    uint32_t ranks = 0;
    for (const WorkerResources& worker : workers) ranks += RanksIn(worker, rank_);
    return ranks;
  }

  int64_t CostOf(uint32_t subset) const {
    int64_t cost = 0;
    for (size_t i = 0; i < jobs_.size(); ++i) cost += (subset >> i & 1) != 0 ? jobs_[i].cost : 0;
    return cost;
  }

  std::vector<WorkerResources> workers_;
  std::vector<VictimCandidate> jobs_;
  RankSize rank_;
  uint32_t ranks_ = 1;
  uint64_t draws_ = 0;
};

TEST_F(RandomRoomsTest, LeastWorkLostIsReallyLeast) {
  int preempted = 0;
  for (int world = 0; world < 3000; ++world) {
    Make();
    std::optional<int64_t> least;
    for (uint32_t subset = 0; subset < 1u << jobs_.size(); ++subset) {
      if (RanksWithout(subset) < ranks_) continue;
      least = std::min(least.value_or(CostOf(subset)), CostOf(subset));
    }
    const std::vector<size_t> victims = ChooseVictims(workers_, jobs_, rank_, ranks_);
    uint32_t chosen = 0;
    for (size_t victim : victims) chosen |= 1u << victim;
    if (!least.has_value() || RanksWithout(0) >= ranks_) {
      EXPECT_EQ(chosen, 0u) << "world " << world;
      continue;
    }
    ++preempted;
    ASSERT_GE(RanksWithout(chosen), ranks_) << "world " << world;
    EXPECT_EQ(CostOf(chosen), *least) << "world " << world;
    for (size_t victim : victims) {
      EXPECT_LT(RanksWithout(chosen & ~(1u << victim)), ranks_)
          << "world " << world << ": " << victim << " need not have gone";
    }
  }
  EXPECT_GT(preempted, 500);
}

TEST(ChooseVictimsTest, ManyCandidatesAreStillHandledWithoutASuperfluousVictim) {
  std::vector<WorkerResources> workers;
  std::vector<VictimCandidate> jobs;
  for (uint64_t i = 0; i < 400; ++i) {
    workers.push_back({.worker_id = i + 1});
    jobs.push_back(Holds(i + 1, i, 4, static_cast<int64_t>(SplitMix64(i) % 1000)));
  }
  const std::vector<size_t> victims = ChooseVictims(workers, jobs, {.slots = 2}, 64);
  ASSERT_EQ(victims.size(), 32u);
  // Of equal size they are: the cheapest ones.
  std::vector<int64_t> costs;
  for (const VictimCandidate& job : jobs) costs.push_back(job.cost);
  std::sort(costs.begin(), costs.end());
  int64_t lost = 0;
  int64_t least = 0;
  for (size_t victim : victims) lost += jobs[victim].cost;
  for (size_t i = 0; i < 32; ++i) least += costs[i];
  EXPECT_EQ(lost, least);
}

TEST(AtStakeTest, CountsFromTheNewestVerifiedCheckpointOfThisAttempt) {
  World world;
  world.AddWorker("a", 2);
  world.AddJob(World::Settings(2));
  world.Place(1, {"a", "a"}, JobState::kRunning);
  world.draft().EditAttempt(1).started = kNow - absl::Seconds(100);
  for (uint32_t rank : {0u, 1u}) world.draft().EditRank(1, rank).slots = {rank};
  const auto at_stake = [&] {
    return SlotSecondsAtStake(world.view(), *world.view().FindJob(1), kNow);
  };
  EXPECT_EQ(at_stake(), 200);
  const auto save = [&](CheckpointState state, absl::Duration ago) {
    const uint64_t id =
        world.draft()
            .AddCheckpoint({.job_id = 1, .attempt = 1, .state = state, .created = kNow - ago})
            .id;
    world.draft().EditJob(1).checkpoints.push_back(id);
  };
  save(CheckpointState::kVerified, absl::Seconds(500));
  EXPECT_EQ(at_stake(), 200) << "this attempt began after it";
  save(CheckpointState::kVerified, absl::Seconds(30));
  EXPECT_EQ(at_stake(), 60);
  save(CheckpointState::kCommitted, absl::Seconds(20));
  EXPECT_EQ(at_stake(), 60) << "nobody has reread it yet";
  EXPECT_EQ(SlotSecondsLost(world.view(), *world.view().FindJob(1), kNow), 40);
  save(CheckpointState::kCorrupt, absl::Seconds(10));
  EXPECT_EQ(at_stake(), 60);
}

TEST(AtStakeTest, WhoSetsTheWallClockChangesNothingOfIt) {
  for (const absl::Duration by : {absl::Hours(-10'000), absl::Hours(10'000)}) {
    World world;
    world.AddWorker("a", 1);
    world.AddJob(World::Settings(1));
    world.Place(1, {"a"}, JobState::kRunning);
    world.draft().EditRank(1, 0).slots = {0};
    Attempt& attempt = world.draft().EditAttempt(1);
    attempt.started = kNow + by - absl::Seconds(100);
    attempt.held_from = kNow - absl::Seconds(100);
    const Job& job = *world.view().FindJob(1);
    EXPECT_EQ(SlotSecondsAtStake(world.view(), job, kNow), 100);
    EXPECT_EQ(SlotSecondsLost(world.view(), job, kNow), 100);
    world.draft().AddCheckpoint({.job_id = 1,
                                 .attempt = 1,
                                 .state = CheckpointState::kVerified,
                                 .created = kNow + by - absl::Seconds(30),
                                 .created_at = kNow - absl::Seconds(30)});
    const Job& saved = *world.view().FindJob(1);
    EXPECT_EQ(SlotSecondsAtStake(world.view(), saved, kNow), 30);
    EXPECT_EQ(SlotSecondsLost(world.view(), saved, kNow), 30);
    EXPECT_EQ(SavedUpTo(world.view(), saved), kNow - absl::Seconds(30));
  }
}

TEST(WaitingPreemptorTest, TheSlotsAreKeptForTheOneThatTheyWereFreedForWhileItWaits) {
  World world;
  world.AddJob(World::Settings(1));
  world.AddJob(World::Settings(1));
  world.Place(1, {"a"}, JobState::kPending);
  Attempt& attempt = world.draft().EditAttempt(1);
  attempt.preempted_by = 2;
  attempt.ended = kNow - absl::Minutes(1);
  const auto waiting_preemptor = [&] {
    return WaitingPreemptor(world.view(), *world.view().FindJob(1), kNow);
  };
  EXPECT_EQ(waiting_preemptor(), 2u);
  world.draft().EditJob(2).held = true;
  EXPECT_EQ(waiting_preemptor(), 0u);
  world.draft().EditJob(2).held = false;
  world.Place(2, {"a"}, JobState::kPending);
  world.draft().EditAttempt(2).started = kNow;
  EXPECT_EQ(waiting_preemptor(), 0u) << "it had them meanwhile";
  world.draft().EditAttempt(2).started = kNow - absl::Hours(1);
  EXPECT_EQ(waiting_preemptor(), 2u);
  world.draft().EditJob(2).state = JobState::kStarting;
  EXPECT_EQ(waiting_preemptor(), 0u);
  world.draft().EditJob(2).state = JobState::kPending;
  attempt.ended = kNow - absl::Minutes(6);
  EXPECT_EQ(waiting_preemptor(), 0u) << "it found no place even so";
}

// A wall clock that was set back by a day between the attempts must not turn their order round.
TEST(WaitingPreemptorTest, AWallClockThatIsSetChangesNothing) {
  World world;
  for (int i = 0; i < 3; ++i) world.AddJob(World::Settings(1));
  world.Place(1, {"a"}, JobState::kPending);
  Attempt& left = world.draft().EditAttempt(1);
  left.preempted_by = 2;
  left.held_from = kNow - absl::Hours(2);
  left.held_until = kNow - absl::Minutes(1);
  left.started = kNow - absl::Hours(2);
  left.ended = left.started - absl::Hours(23);
  world.Place(2, {"a"}, JobState::kPending);
  Attempt& other = world.draft().EditAttempt(2);
  other.held_from = kNow - absl::Hours(1);
  other.held_until = kNow - absl::Minutes(30);
  other.started = kNow - absl::Hours(1);
  other.ended = kNow - absl::Minutes(30);
  const auto job = [&](uint64_t id) -> const Job& { return *world.view().FindJob(id); };
  EXPECT_EQ(WaitingPreemptor(world.view(), job(1), kNow), 2u);
  EXPECT_EQ(WaitingPreemptor(world.view(), job(1), kNow + absl::Minutes(4)), 0u)
      << "five minutes are over";
  other.held_from = kNow - absl::Seconds(30);
  EXPECT_EQ(WaitingPreemptor(world.view(), job(1), kNow), 0u) << "it had the slots meanwhile";
  other.held_from = kNow - absl::Hours(1);
  world.Place(1, {"a"}, JobState::kRunning);
  EXPECT_TRUE(WasStoppedFor(job(1), job(2)));
  EXPECT_FALSE(WasStoppedFor(job(1), job(3)));
}

}  // namespace
}  // namespace muster::controller
