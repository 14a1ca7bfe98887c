#include "controller/policy/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "controller/policy/health/eligibility.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

JobNeeds Gpus(uint32_t ranks, uint32_t per_rank) {
  JobNeeds needs = World::Settings(ranks).needs;
  needs.slot_kind = SlotKind::kGpu;
  needs.slots_per_rank = per_rank;
  return needs;
}

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

class PlacementTest : public ::testing::Test {
 protected:
  // Names of the workers that the gang gets, one a rank.
  std::vector<std::string> Place(const JobNeeds& needs) {
    WorkerIndex index;
    world_.view().workers.ForEach([&](const Worker& worker) { index.Put(worker, kNow); });
    index.Advance(now_, kIncidentWindow);
    Demand demand(needs);
    const int partition = index.FindPartition(needs.pools.front().name, needs.slot_kind);
    std::vector<std::string> workers;
    if (partition < 0) return workers;
    ranks_ = RanksOf(index, needs, FitGang(index, partition, demand, needs.max_ranks));
    for (const RankPlacement& rank : ranks_) workers.push_back(rank.worker);
    return workers;
  }
  Worker& Add(const std::string& name, uint32_t slots) {
    return world_.AddWorker(name, slots, SlotKind::kGpu);
  }

  // Failures began on the worker, so long ago each.
  static void WorkerFailure(Worker& worker, std::initializer_list<absl::Duration> ago) {
    for (const absl::Duration duration : ago) {
      worker.failures.push_back({.time = kNow - duration, .job_id = 1});
    }
  }

  World world_;
  absl::Time now_ = kNow;
  std::vector<RankPlacement> ranks_;
};

TEST_F(PlacementTest, TheSlotsOfARankAreOnOneWorker) {
  Add("a", 3);
  Add("b", 3);
  EXPECT_THAT(Place(Gpus(2, 2)), ElementsAre("a", "b"));
  EXPECT_THAT(ranks_[0].slots, ElementsAre(0, 1));
  EXPECT_THAT(ranks_[1].slots, ElementsAre(0, 1));
  EXPECT_THAT(Place(Gpus(3, 2)), IsEmpty()) << "six slots are free, but not in pairs";
  EXPECT_THAT(Place(Gpus(1, 4)), IsEmpty());
}

TEST_F(PlacementTest, SeveralRanksOnOneWorkerGetDifferentSlots) {
  Add("a", 4).pulse.holders[1] = {.job_id = 9};
  Add("b", 8);
  EXPECT_THAT(Place(Gpus(3, 2)), ElementsAre("b", "b", "b"));
  EXPECT_THAT(ranks_[1].slots, ElementsAre(2, 3));
  EXPECT_EQ(ranks_[2].local_rank, 2u);
}

TEST_F(PlacementTest, OnlyGpusOfTheModelCount) {
  for (Slot& slot : Add("a", 4).facts.slots) slot.device = "NVIDIA A100-SXM4-80GB";
  Worker& mixed = Add("b", 4);
  for (Slot& slot : mixed.facts.slots) {
    slot.device = slot.index < 2 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3";
  }
  JobNeeds needs = Gpus(2, 1);
  needs.gpu_type = "h100";
  EXPECT_THAT(Place(needs), ElementsAre("b", "b"));
  EXPECT_THAT(ranks_[0].slots, ElementsAre(2));
  needs.min_ranks = needs.max_ranks = 3;
  EXPECT_THAT(Place(needs), IsEmpty());
  needs.gpu_type = "b200";
  EXPECT_THAT(Place(needs), IsEmpty());
}

TEST_F(PlacementTest, CpusAndMemoryAreAccounted) {
  Worker& a = Add("a", 8);
  a.facts.cpus = 32;
  a.facts.memory_bytes = 64 << 20;
  a.pulse.holders[0] = {.job_id = 9, .attempt = 1, .rank = 0, .cpus = 20, .memory_bytes = 0};
  Worker& b = Add("b", 2);
  b.facts.cpus = 32;
  b.facts.memory_bytes = 64 << 20;
  JobNeeds needs = Gpus(3, 1);
  needs.cpus_per_rank = 8;
  EXPECT_THAT(Place(needs), ElementsAre("a", "b", "b")) << "12 CPUs are left on a: one rank";
  needs.cpus_per_rank = 0;
  needs.memory_per_rank = 30 << 20;
  EXPECT_THAT(Place(needs), UnorderedElementsAre("a", "a", "b"));
  needs.memory_per_rank = 40 << 20;
  EXPECT_THAT(Place(needs), IsEmpty());
}

TEST_F(PlacementTest, ExcludedWorkersAndThoseWithoutTheLabelsAreLeftOut) {
  Add("a", 2).facts.labels = {{"zone", "x"}};
  Add("b", 2).facts.labels = {{"zone", "y"}};
  Add("c", 2).facts.labels = {{"zone", "x"}};
  JobNeeds needs = Gpus(1, 1);
  needs.selector = {{"zone", "x"}};
  needs.exclude = {"a"};
  EXPECT_THAT(Place(needs), ElementsAre("c"));
  needs.min_ranks = needs.max_ranks = 3;
  EXPECT_THAT(Place(needs), IsEmpty());
}

TEST_F(PlacementTest, CommandsGoOnlyWhereTheyAreAllowed) {
  Add("a", 4);
  Add("b", 2).facts.allows_commands = true;
  JobNeeds needs = Gpus(2, 1);
  EXPECT_THAT(Place(needs), ElementsAre("b", "b")) << "the worker that it fills";
  needs.commands = true;
  EXPECT_THAT(Place(needs), ElementsAre("b", "b"));
  needs.min_ranks = needs.max_ranks = 3;
  EXPECT_THAT(Place(needs), IsEmpty());
}

TEST_F(PlacementTest, ACommandIsRefusedWhenNobodyAllowsCommands) {
  Worker& a = Add("a", 4);
  JobNeeds needs = Gpus(5, 1);
  needs.commands = true;
  const absl::Duration now = absl::Seconds(1);
  EXPECT_EQ(
      CanEverFit(world_.view(), needs, now),
      absl::FailedPreconditionError(
          "refused: no worker runs users' own code (commands, plug-ins, TorchScript files): start "
          "muster-worker with --allow-commands"));
  needs.wait_for_capacity = true;
  EXPECT_TRUE(CanEverFit(world_.view(), needs, now).ok());
  needs.wait_for_capacity = false;
  a.facts.allows_commands = true;
  EXPECT_THAT(std::string(CanEverFit(world_.view(), needs, now).message()),
              ::testing::HasSubstr("at most 4 ranks"));
  needs.min_ranks = 4;
  EXPECT_TRUE(CanEverFit(world_.view(), needs, now).ok());
}

TEST_F(PlacementTest, ImagesGoOnlyWhereARuntimeForThemIs) {
  Add("bare", 8).facts.allows_commands = true;
  Worker& podman = Add("podman", 4);
  podman.facts.allows_commands = true;
  podman.facts.container_runtimes = {"podman"};
  Worker& apptainer = Add("apptainer", 2);
  apptainer.facts.allows_commands = true;
  apptainer.facts.container_runtimes = {"apptainer"};
  JobNeeds needs = Gpus(4, 1);
  needs.commands = true;
  needs.image = JobNeeds::Image::kReference;
  EXPECT_THAT(Place(needs), ElementsAre("podman", "podman", "podman", "podman"));
  needs.min_ranks = needs.max_ranks = 7;
  EXPECT_THAT(Place(needs), IsEmpty());
  needs.min_ranks = needs.max_ranks = 2;
  needs.image = JobNeeds::Image::kFile;
  EXPECT_THAT(Place(needs), ElementsAre("apptainer", "apptainer"));
}

TEST_F(PlacementTest, AnImageIsRefusedWhenNoWorkerThatAllowsCommandsCanRunIt) {
  Worker& a = Add("a", 4);
  a.facts.allows_commands = true;
  // It has a runtime, but runs no commands.
  Add("b", 4).facts.container_runtimes = {"podman", "apptainer"};
  JobNeeds needs = Gpus(1, 1);
  needs.commands = true;
  EXPECT_TRUE(CanEverFit(world_.view(), needs, absl::Seconds(1)).ok());
  needs.image = JobNeeds::Image::kReference;
  const auto refusal = [&] {
    return std::string(CanEverFit(world_.view(), needs, absl::Seconds(1)).message());
  };
  EXPECT_THAT(refusal(), ::testing::HasSubstr("install podman or apptainer there"));
  a.facts.container_runtimes = {"podman"};
  EXPECT_EQ(refusal(), "");
  needs.image = JobNeeds::Image::kFile;
  EXPECT_THAT(refusal(), ::testing::HasSubstr("install apptainer there"));
  a.facts.container_runtimes.push_back("apptainer");
  EXPECT_EQ(refusal(), "");
  needs.min_ranks = needs.max_ranks = 5;
  EXPECT_THAT(refusal(), ::testing::HasSubstr("at most 4 ranks of a command in a container"));
}

TEST_F(PlacementTest, WorkersWithIncidentsComeLast) {
  WorkerFailure(Add("a", 4), {absl::Minutes(1)});
  Add("b", 2);
  Add("c", 2);
  EXPECT_THAT(Place(Gpus(4, 1)), ElementsAre("b", "b", "c", "c"));
  EXPECT_THAT(Place(Gpus(5, 1)), ElementsAre("a", "a", "a", "a", "b"));
}

TEST_F(PlacementTest, TheMoreIncidentsTheLaterAndOldOnesDoNotCount) {
  WorkerFailure(Add("often", 2), {absl::Minutes(9), absl::Minutes(5), absl::Minutes(1)});
  WorkerFailure(Add("once", 2), {absl::Minutes(50)});
  // Many at once are one incident; one was before the quarantine ended.
  Worker& lost = Add("lost", 2);
  WorkerFailure(lost, {absl::Minutes(30), absl::Minutes(2), absl::Minutes(2), absl::Minutes(2)});
  WorkerFailure(lost, {absl::Minutes(1)});
  lost.quarantine_ended = kNow - absl::Minutes(20);
  WorkerFailure(Add("long ago", 2), {absl::Hours(2), absl::Hours(3)});
  EXPECT_THAT(Place(Gpus(2, 1)), ElementsAre("long ago", "long ago"));
  EXPECT_THAT(Place(Gpus(4, 1)), ElementsAre("once", "once", "long ago", "long ago"));
  EXPECT_THAT(Place(Gpus(6, 1)),
              ElementsAre("once", "once", "lost", "lost", "long ago", "long ago"));
  now_ = kNow + absl::Minutes(56);  // only the last ones of "often" and "lost" are left
  world_.draft().EditWorker(4).cordoned = true;
  EXPECT_THAT(Place(Gpus(2, 1)), ElementsAre("once", "once"));
}

TEST_F(PlacementTest, OneIncidentDoesNotMakeAnElasticGangSmaller) {
  WorkerFailure(Add("a", 2), {absl::Minutes(1)});
  Add("b", 2);
  JobNeeds needs = Gpus(1, 1);
  needs.max_ranks = 4;
  EXPECT_THAT(Place(needs), ElementsAre("a", "a", "b", "b"));
  needs.max_ranks = 2;
  EXPECT_THAT(Place(needs), ElementsAre("b", "b"));
}

// Against a plain reading of the words: the gang fits exactly when the workers' ranks add up.
TEST_F(PlacementTest, AGangFitsExactlyWhenTheRanksAddUp) {
  uint64_t drawn = 0;
  const auto draw = [&drawn](uint64_t below) { return SplitMix64(++drawn) % below; };
  for (int round = 0; round < 300; ++round) {
    world_ = World();
    const JobNeeds base = Gpus(1 + draw(6), 1 + draw(3));
    JobNeeds needs = base;
    needs.cpus_per_rank = draw(3) * 4;
    if (draw(3) == 0) needs.selector = {{"zone", "x"}};
    uint64_t expected = 0;
    const uint32_t workers = 1 + draw(6);
    for (uint32_t i = 0; i < workers; ++i) {
      Worker& worker = Add("w" + std::to_string(i), draw(9));
      worker.facts.cpus = draw(40);
      if (draw(2) == 0) worker.facts.labels = {{"zone", "x"}};
      uint64_t free = 0;
      uint32_t cpus = worker.facts.cpus;
      for (const Slot& slot : worker.facts.slots) {
        if (draw(3) == 0) {
          const uint32_t held = std::min<uint32_t>(cpus, draw(4));
          worker.pulse.holders[slot.index] = {.job_id = 9, .attempt = 1, .rank = 0, .cpus = held};
          cpus -= held;
        } else {
          ++free;
        }
      }
      if (!needs.selector.empty() && worker.facts.labels.empty()) continue;
      uint64_t ranks = free / needs.slots_per_rank;
      if (needs.cpus_per_rank > 0) ranks = std::min<uint64_t>(ranks, cpus / needs.cpus_per_rank);
      expected += ranks;
    }
    EXPECT_EQ(!Place(needs).empty(), expected >= needs.min_ranks) << "round " << round;
  }
}

}  // namespace
}  // namespace muster::controller
