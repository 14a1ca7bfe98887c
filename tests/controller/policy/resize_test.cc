// Preemption and resizing over many looks of the whole scheduler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "common/base/rng.h"
#include "controller/policy/placement/preemption.h"
#include "tests/controller/policy/replay.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;

JobSettings Wants(uint32_t min, int32_t priority, uint32_t max = 0) {
  JobSettings settings = World::Settings(min, max);
  settings.priority = priority;
  return settings;
}

class ResizeTest : public ::testing::Test {
 protected:
  void Looks(int count) {
    for (int i = 0; i < count; ++i) replay_.Look();
  }
  JobState state(uint64_t id) { return replay_.job(id).state; }

  Replay replay_;
};

TEST_F(ResizeTest, TheVictimIsTheOneWithTheLeastUnsavedWork) {
  for (const char* worker : {"a", "b", "c"}) replay_.world.AddWorker(worker, 1);
  std::vector<uint64_t> low;
  for (int i = 0; i < 3; ++i) {
    low.push_back(replay_.Submit(Wants(1, 0)));
    Looks(5);
  }
  // The first one has just saved.
  replay_.Save(low[0]);
  const uint64_t high = replay_.Submit(Wants(1, 1));
  Looks(1);
  EXPECT_EQ(state(low[0]), JobState::kRecovering);
  Looks(1);
  EXPECT_EQ(state(high), JobState::kRunning);
  Looks(30);
  EXPECT_EQ(state(low[0]), JobState::kPending);
  EXPECT_EQ(replay_.stops(low[0]), 1u);
  replay_.Finish(high);
  Looks(1);
  EXPECT_EQ(state(low[0]), JobState::kRunning);
}

TEST_F(ResizeTest, WhileVictimsSaveNobodyElseIsStoppedOrTakesTheirSlots) {
  replay_.world.AddWorker("a", 2);
  const uint64_t one = replay_.Submit(Wants(1, 0));
  const uint64_t two = replay_.Submit(Wants(1, 0));
  Looks(1);
  const uint64_t high = replay_.Submit(Wants(2, 5));
  const uint64_t small = replay_.Submit(Wants(1, 5));
  EXPECT_EQ(replay_.Look(), 2u);
  // Both are still saving: the plan stands still.
  ASSERT_EQ(state(one), JobState::kRecovering);
  const Decision again = Schedule(
      replay_.world.view(), {.now = absl::Hours(2), .wall = replay_.wall() + absl::Seconds(1)});
  EXPECT_TRUE(again.plan.stop.empty());
  EXPECT_TRUE(again.plan.place.empty());
  Looks(1);
  EXPECT_EQ(state(high), JobState::kRunning);
  EXPECT_EQ(state(small), JobState::kPending);
  EXPECT_EQ(state(two), JobState::kPending);
}

TEST_F(ResizeTest, EqualsAndProtectedJobsAreNotStopped) {
  replay_.world.AddWorker("a", 2);
  JobSettings firm = Wants(1, -1000);
  firm.scheduling.preemptible = false;
  replay_.Submit(firm);
  replay_.Submit(Wants(1, 5));
  Looks(1);
  const uint64_t head = replay_.Submit(Wants(1, 5));
  Looks(20);
  EXPECT_EQ(state(head), JobState::kPending);
}

TEST_F(ResizeTest, AJobOverItsQuotaDisplacesLowerOnesOfItsOwnProject) {
  replay_.world.AddWorker("a", 5);
  replay_.world.draft().EditProject("p").quota.slots = 3;
  JobSettings foreign = Wants(1, -5);
  foreign.project = "q";
  const uint64_t other = replay_.Submit(foreign);
  const uint64_t one = replay_.Submit(Wants(1, 0));
  const uint64_t two = replay_.Submit(Wants(1, 0));
  const uint64_t equal = replay_.Submit(Wants(1, 5));
  Looks(1);
  const uint64_t high = replay_.Submit(Wants(2, 5));
  Looks(1);
  EXPECT_EQ(state(one), JobState::kRecovering);
  EXPECT_EQ(state(two), JobState::kRecovering);
  Looks(1);
  EXPECT_EQ(state(high), JobState::kRunning);
  Looks(10);
  EXPECT_EQ(state(one), JobState::kPending);
  EXPECT_EQ(state(two), JobState::kPending);
  EXPECT_EQ(state(equal), JobState::kRunning);
  EXPECT_EQ(state(other), JobState::kRunning) << "a slot beside it was free all the time";
  EXPECT_EQ(replay_.stops(one) + replay_.stops(two), 2u);
}

TEST_F(ResizeTest, AJobThatStaysOverItsQuotaWhoeverLeavesDisplacesNobody) {
  replay_.world.AddWorker("a", 4);
  replay_.world.draft().EditProject("p").quota.slots = 2;
  JobSettings foreign = Wants(2, -5);
  foreign.project = "q";
  const uint64_t other = replay_.Submit(foreign);
  const uint64_t low = replay_.Submit(Wants(1, 0));
  const uint64_t equal = replay_.Submit(Wants(1, 5));
  Looks(1);
  const uint64_t high = replay_.Submit(Wants(2, 5));
  Looks(10);
  for (const uint64_t runs : {other, low, equal}) EXPECT_EQ(state(runs), JobState::kRunning);
  EXPECT_EQ(state(high), JobState::kPending);
}

TEST_F(ResizeTest, AUsersQuotaIsFreedByThatUsersJobs) {
  replay_.world.AddWorker("a", 4);
  replay_.world.draft().EditProject("p").each_user.slots = 1;
  const uint64_t bobs = replay_.Submit(Wants(1, 0));
  const uint64_t anns = replay_.Submit(Wants(1, 0));
  replay_.world.draft().EditJob(bobs).owner = "bob";
  replay_.world.draft().EditJob(anns).owner = "ann";
  Looks(1);
  const uint64_t high = replay_.Submit(Wants(1, 5));
  replay_.world.draft().EditJob(high).owner = "ann";
  Looks(2);
  EXPECT_EQ(state(bobs), JobState::kRunning);
  EXPECT_EQ(state(anns), JobState::kPending);
  EXPECT_EQ(state(high), JobState::kRunning);
}

TEST_F(ResizeTest, AGangOfTheSameProjectShrinksForAJobThatIsOverQuota) {
  replay_.world.AddWorker("a", 4);
  replay_.world.draft().EditProject("p").quota.slots = 3;
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(1);
  ASSERT_EQ(replay_.ranks(elastic), 3u);
  const uint64_t high = replay_.Submit(Wants(2, 5));
  Looks(3);
  EXPECT_EQ(replay_.ranks(high), 2u);
  EXPECT_EQ(replay_.ranks(elastic), 1u);
  EXPECT_EQ(replay_.stops(elastic), 1u);
}

TEST_F(ResizeTest, AnElasticGangShrinksBeforeAnybodyIsPreempted) {
  replay_.world.AddWorker("a", 4);
  const uint64_t firm = replay_.Submit(Wants(1, 0));
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(1);
  ASSERT_EQ(replay_.ranks(elastic), 3u);
  const uint64_t high = replay_.Submit(Wants(2, 1));
  Looks(1);
  EXPECT_EQ(state(firm), JobState::kRunning);
  EXPECT_EQ(state(elastic), JobState::kRecovering);
  Looks(2);
  EXPECT_EQ(replay_.ranks(high), 2u);
  EXPECT_EQ(replay_.ranks(elastic), 1u);
  EXPECT_EQ(replay_.ranks(firm), 1u);
}

TEST_F(ResizeTest, AnElasticGangMakesRoomForItsEqualsInTime) {
  replay_.world.AddWorker("a", 4);
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(1);
  const uint64_t equal = replay_.Submit(Wants(2, 0));
  Looks(8);
  replay_.Save(elastic);
  EXPECT_EQ(replay_.ranks(elastic), 4u) << "it has only just begun";
  Looks(5);
  EXPECT_EQ(replay_.ranks(elastic), 2u);
  EXPECT_EQ(replay_.ranks(equal), 2u);
  EXPECT_EQ(replay_.stops(elastic), 1u);
}

TEST_F(ResizeTest, AnElasticGangGrowsIntoSlotsThatNobodyWaitsFor) {
  replay_.world.AddWorker("a", 4);
  const uint64_t other = replay_.Submit(Wants(3, 0));
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(12);
  ASSERT_EQ(replay_.ranks(elastic), 1u);
  replay_.Save(elastic);
  replay_.Finish(other);
  const uint64_t waits = replay_.Submit(Wants(4, 0));
  Looks(5);
  EXPECT_EQ(replay_.ranks(elastic), 1u) << "the slots are kept for another";
  replay_.world.draft().EditJob(waits).state = JobState::kCancelled;
  Looks(2);
  EXPECT_EQ(replay_.ranks(elastic), 4u);
  Looks(60);
  EXPECT_EQ(replay_.stops(elastic), 1u);
}

TEST_F(ResizeTest, AGangKeepsTheFurtherPoolThatItWaitedForWhenItGrows) {
  replay_.world.AddWorker("sp", 1, SlotKind::kCpu, "spot");
  replay_.world.AddWorker("od", 4, SlotKind::kCpu, "ondemand");
  JobSettings spot = Wants(1, 5);
  spot.needs.pools = {{"spot", {}}};
  replay_.Submit(spot);
  JobSettings other = Wants(3, 0);
  other.needs.pools = {{"ondemand", {}}};
  const uint64_t leaves = replay_.Submit(other);
  JobSettings settings = Wants(1, 0, 8);
  settings.needs.pools = {{"spot", {}}, {"ondemand", absl::Minutes(20)}};
  const uint64_t elastic = replay_.Submit(settings);
  Looks(22);
  ASSERT_EQ(replay_.ranks(elastic), 1u);
  replay_.Finish(leaves);
  Looks(9);
  replay_.Save(elastic);
  Looks(6);
  EXPECT_EQ(replay_.ranks(elastic), 4u) << "without another twenty minutes in partition";
  EXPECT_EQ(replay_.stops(elastic), 1u);
}

TEST_F(ResizeTest, AGangDoesNotGrowWhereItMayNoLongerGo) {
  replay_.world.AddWorker("a", 4);
  replay_.world.AddWorker("sp", 1, SlotKind::kCpu, "spot");
  const uint64_t other = replay_.Submit(Wants(3, 0));
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(12);
  replay_.Save(elastic);
  JobSettings moved = Wants(1, 0, 8);
  moved.project = "p";
  moved.needs.pools = {{"spot", {}}};
  replay_.world.draft().EditJob(elastic).settings = std::make_shared<const JobSettings>(moved);
  replay_.Finish(other);
  Looks(30);
  EXPECT_EQ(replay_.ranks(elastic), 1u);
  EXPECT_EQ(replay_.stops(elastic), 0u);
}

TEST_F(ResizeTest, AGrowingGangStaysWithinItsQuota) {
  replay_.world.AddWorker("a", 8);
  replay_.world.draft().EditProject("p").quota.slots = 4;
  const uint64_t other = replay_.Submit(Wants(3, 0));
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(12);
  ASSERT_EQ(replay_.ranks(elastic), 1u);
  replay_.Save(elastic);
  replay_.Finish(other);
  Looks(30);
  EXPECT_EQ(replay_.ranks(elastic), 4u);
  EXPECT_EQ(replay_.stops(elastic), 1u);
}

TEST_F(ResizeTest, TwoGangsDoNotGrowIntoTheRoomOfOneQuota) {
  replay_.world.draft().EditProject("p").quota.slots = 12;
  std::vector<uint64_t> others, elastic;
  for (const char* pool : {"one", "two"}) {
    replay_.world.AddWorker(pool, 8, SlotKind::kCpu, pool);
    const auto wants = [&](uint32_t min, uint32_t max, const char* project) {
      JobSettings settings = Wants(min, min == max ? 1 : 0, max);
      settings.needs.pools = {{pool, {}}};
      settings.project = project;
      return replay_.Submit(settings);
    };
    others.push_back(wants(7, 7, "other"));
    elastic.push_back(wants(1, 8, "p"));
  }
  Looks(12);
  for (uint64_t id : elastic) {
    ASSERT_EQ(replay_.ranks(id), 1u);
    replay_.Save(id);
  }
  for (uint64_t id : others) replay_.Finish(id);
  Looks(30);
  EXPECT_EQ(replay_.ranks(elastic[0]) + replay_.ranks(elastic[1]), 12u);
  for (uint64_t id : elastic) EXPECT_LE(replay_.stops(id), 1u);
}

TEST_F(ResizeTest, AGangDoesNotGrowWhileJobsWaitThatTheRoundHasNotComeTo) {
  replay_.world.AddWorker("a", 4);
  const uint64_t other = replay_.Submit(Wants(3, 0));
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(12);
  replay_.Save(elastic);
  replay_.Finish(other);
  replay_.settings.max_placements = 1;
  for (int i = 0; i < 3; ++i) replay_.Submit(Wants(1, 0));
  Looks(5);
  EXPECT_EQ(replay_.stops(elastic), 0u);
}

// A command that reports nothing and saves nothing lost all it had done for each rank more.
TEST_F(ResizeTest, AGangThatHasSavedNothingIsLeftAlone) {
  replay_.world.AddWorker("a", 4);
  const uint64_t other = replay_.Submit(Wants(3, 0));
  const uint64_t elastic = replay_.Submit(Wants(1, 0, 8));
  Looks(12);
  replay_.Finish(other);
  Looks(120);
  EXPECT_EQ(replay_.stops(elastic), 0u);
}

// Worlds at random: whatever is submitted, the scheduler comes to rest, and then nobody waits for
// whom jobs of lower priority could make room.
class RandomWorld {
 public:
  explicit RandomWorld(uint64_t seed) : seed_(seed) {
    const uint64_t workers = 1 + Draw(4);
    for (uint64_t i = 0; i < workers; ++i) {
      replay.world.AddWorker(std::string(1, static_cast<char>('a' + i)), 1 + Draw(4));
    }
  }
  uint64_t Draw(uint64_t below) { return DeriveSeed(seed_, 2, ++draws_) % below; }

  void SubmitOne() {
    const uint32_t min = 1 + Draw(4);
    JobSettings settings = Wants(min, static_cast<int32_t>(Draw(4)), min + Draw(2) * Draw(5));
    settings.needs.slots_per_rank = 1 + Draw(2);
    settings.scheduling.preemptible = Draw(5) != 0;
    replay.Submit(std::move(settings));
  }

  // The first job of the queue, for whom those of lower priority that may be preempted hold enough.
  std::optional<uint64_t> WhoCouldHaveRoom() {
    const Snapshot& view = replay.world.view();
    const Job* head = nullptr;
    view.jobs.ForEach([&](const Job& job) {
      const bool first = head == nullptr || job.settings->priority > head->settings->priority;
      if (job.state == JobState::kPending && first && Fits(view, job, /*idle=*/true)) head = &job;
    });
    if (head == nullptr || !Fits(view, *head, /*idle=*/false)) return std::nullopt;
    return head->id;
  }

  Replay replay;

 private:
  // Whether the gang would fit if all slots were free, or those that it may take.
  static bool Fits(const Snapshot& view, const Job& job, bool idle) {
    const JobNeeds& needs = job.settings->needs;
    uint32_t ranks = 0;
    view.workers.ForEach([&](const Worker& worker) {
      uint32_t slots = 0;
      for (const Slot& slot : worker.facts.slots) {
        const auto holder = worker.pulse.holders.find(slot.index);
        const Job* other =
            holder == worker.pulse.holders.end() ? nullptr : view.FindJob(holder->second.job_id);
        slots += idle || other == nullptr ||
                 (other->settings->scheduling.preemptible &&
                  other->settings->priority < job.settings->priority);
      }
      ranks += slots / needs.slots_per_rank;
    });
    return ranks >= needs.min_ranks;
  }

  const uint64_t seed_;
  uint64_t draws_ = 0;
};

TEST(ResizePropertyTest, AFixedWorldComesToRestAndNobodyIsWrongedThen) {
  uint32_t stopped = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomWorld world(seed);
    const uint64_t looks = 5 + world.Draw(20);
    for (uint64_t i = 0; i < looks; ++i) {
      if (world.Draw(2) == 0) world.SubmitOne();
      world.replay.Look();
    }
    int still = 0;  // looks in a row without a change
    for (int look = 0; look < 200 && still < 30; ++look) {
      still = world.replay.Look() == 0 ? still + 1 : 0;
    }
    ASSERT_GE(still, 30) << "it never comes to rest";
    const auto wronged = world.WhoCouldHaveRoom();
    EXPECT_FALSE(wronged.has_value()) << "job " << wronged.value_or(0) << " waits for no reason";
    world.replay.world.view().jobs.ForEach(
        [&](const Job& job) { stopped += world.replay.stops(job.id); });
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(stopped, 100u) << "the worlds are too tame";
}

}  // namespace
}  // namespace muster::controller
