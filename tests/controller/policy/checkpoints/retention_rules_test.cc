#include "controller/policy/checkpoints/retention_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kNow = absl::Hours(1);

class RetentionRulesTest : public ::testing::Test {
 protected:
  RetentionRulesTest() {
    world_.AddWorker("a", 1);
    JobSettings settings = World::Settings(1);
    settings.keep_last = 2;
    world_.AddJob(settings);
  }
  uint64_t Add(int64_t step, CheckpointState state, bool best = false) {
    Checkpoint checkpoint;
    checkpoint.job_id = 1;
    checkpoint.step = step;
    checkpoint.state = state;
    checkpoint.best = best;
    return world_.draft().AddCheckpoint(std::move(checkpoint)).id;
  }
  std::vector<uint64_t> Actions(AssignmentKind kind) {
    std::vector<uint64_t> ids;
    for (const auto& action : PlanRetention(world_.view(), kNow).actions) {
      if (action.kind == kind) ids.push_back(action.checkpoint_id);
    }
    return ids;
  }
  using Ids = std::vector<uint64_t>;

  World world_;
};

TEST_F(RetentionRulesTest, WhatIsCommittedIsVerifiedOnceAndWhatIsWritingIsLeftAlone) {
  Add(1, CheckpointState::kWriting);
  const uint64_t id = Add(2, CheckpointState::kCommitted);
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{id});
  world_.draft().AddOutbox({.worker = "a", .kind = AssignmentKind::kVerify, .checkpoint_id = id});
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{});
}

// A job that saves faster than its checkpoints are read must not fall further behind each time.
TEST_F(RetentionRulesTest, TheNewestIsReadFirstAndWhatThatMakesSuperfluousIsNeverRead) {
  Ids ids;
  for (int64_t step : {1, 2, 3, 6, 4}) ids.push_back(Add(step, CheckpointState::kCommitted));
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{ids[3]}) << "the newest by its step";
  world_.draft().AddOutbox(
      {.worker = "a", .kind = AssignmentKind::kVerify, .checkpoint_id = ids[3]});
  ids.push_back(Add(7, CheckpointState::kCommitted));
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{}) << "a worker reads one at a time of a job";
  world_.draft().RemoveOutbox(1);
  world_.draft().EditCheckpoint(ids[3]).state = CheckpointState::kVerified;
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{ids[5]}) << "what came meanwhile goes first";
  world_.draft().EditCheckpoint(ids[5]).state = CheckpointState::kVerified;
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{});
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{ids[4], ids[2], ids[1], ids[0]}));
}

TEST_F(RetentionRulesTest, EachWorkerReadsOneOfAJobAndADoubtIsSettledAtOnce) {
  world_.AddWorker("b", 1);
  Ids ids;
  for (int64_t step = 1; step <= 4; ++step) ids.push_back(Add(step, CheckpointState::kCommitted));
  EXPECT_EQ(Actions(AssignmentKind::kVerify), (Ids{ids[3], ids[2]}));
  world_.draft().EditCheckpoint(ids[0]).doubt =
      Checkpoint::Doubt{.worker = "a", .message = "block 3 differs"};
  EXPECT_EQ(Actions(AssignmentKind::kVerify), (Ids{ids[3], ids[2], ids[0]}));
}

TEST_F(RetentionRulesTest, NothingGoesWithoutEnoughNewerVerifiedOnes) {
  Add(1, CheckpointState::kVerified);
  Add(2, CheckpointState::kVerified);
  Add(3, CheckpointState::kCommitted);
  Add(4, CheckpointState::kCommitted);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
}

TEST_F(RetentionRulesTest, OlderOnesGoButTheNewestBestStays) {
  const uint64_t former_best = Add(1, CheckpointState::kVerified, true);
  Add(2, CheckpointState::kVerified, true);
  const uint64_t corrupt = Add(3, CheckpointState::kCorrupt);
  const uint64_t unverified = Add(4, CheckpointState::kCommitted);
  Add(5, CheckpointState::kVerified);
  Add(6, CheckpointState::kVerified);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{unverified, corrupt, former_best}));
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{}) << "what goes is not reread";
}

TEST_F(RetentionRulesTest, TheVerifiedBestStaysUntilTheNewBestIsVerified) {
  const uint64_t former_best = Add(1, CheckpointState::kVerified, true);
  Add(2, CheckpointState::kVerified);
  Add(3, CheckpointState::kVerified);
  const uint64_t best = Add(4, CheckpointState::kCommitted, true);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
  world_.draft().EditCheckpoint(best).state = CheckpointState::kVerified;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{2, former_best}));
}

TEST_F(RetentionRulesTest, WhatIsInDoubtDoesNotLetOlderOnesGo) {
  const uint64_t oldest = Add(1, CheckpointState::kVerified);
  Add(2, CheckpointState::kVerified);
  const uint64_t doubted = Add(3, CheckpointState::kVerified);
  world_.draft().EditCheckpoint(doubted).doubt = {.worker = "a", .message = "block 3 differs"};
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
  world_.draft().EditCheckpoint(doubted).doubt.reset();
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{oldest});
}

TEST_F(RetentionRulesTest, WhatAStartingGangMayBeLoadingStays) {
  const uint64_t oldest = Add(1, CheckpointState::kVerified);
  Add(2, CheckpointState::kVerified);
  Add(3, CheckpointState::kVerified);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{oldest});
  world_.Place(1, {"a"}, JobState::kStarting);
  world_.draft().EditAttempt(1).resume = {oldest};
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
  world_.draft().EditAttempt(1).reached_running = true;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{oldest});
}

TEST_F(RetentionRulesTest, WhatAnotherJobBeginsFromStaysUntilThatOneHasAVerifiedOne) {
  const uint64_t oldest = Add(1, CheckpointState::kVerified);
  const uint64_t old = Add(2, CheckpointState::kVerified);
  Add(3, CheckpointState::kVerified);
  Add(4, CheckpointState::kVerified);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{old, oldest}));
  JobSettings settings = World::Settings(1);
  settings.resume_from = {oldest};
  const uint64_t other = world_.AddJob(settings).id;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{old});
  Checkpoint own;
  own.job_id = other;
  own.step = 2;
  own.state = CheckpointState::kCommitted;
  const uint64_t own_id = world_.draft().AddCheckpoint(own).id;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{old}) << "committed is not verified";
  world_.draft().EditCheckpoint(own_id).state = CheckpointState::kVerified;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{old, oldest}));
  world_.draft().EditCheckpoint(own_id).state = CheckpointState::kCorrupt;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{old}) << "it may need the other one again";
  world_.draft().EditJob(other).state = JobState::kFailed;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{old, oldest}));
}

TEST_F(RetentionRulesTest, WhatIsLeftForAnotherJobOfAnEndedOneGoesWhenThatHasEndedToo) {
  const uint64_t oldest = Add(1, CheckpointState::kVerified);
  Add(2, CheckpointState::kVerified);
  Add(3, CheckpointState::kVerified);
  world_.draft().EditJob(1).state = JobState::kSucceeded;
  JobSettings settings = World::Settings(1);
  settings.resume_from = {oldest};
  const uint64_t other = world_.AddJob(settings).id;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
  EXPECT_EQ(*world_.view().retention_jobs, Ids{1});
  world_.draft().EditJob(other).state = JobState::kFailed;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{oldest});
  world_.draft().EditCheckpoint(oldest).state = CheckpointState::kDeleted;
  EXPECT_EQ(*world_.view().retention_jobs, Ids{});
}

TEST_F(RetentionRulesTest, APinnedOneStaysUntilItIsUnpinned) {
  const uint64_t oldest = Add(1, CheckpointState::kVerified);
  const uint64_t broken = Add(2, CheckpointState::kCorrupt);
  Add(3, CheckpointState::kVerified);
  Add(4, CheckpointState::kVerified);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{broken, oldest}));
  for (const uint64_t id : {oldest, broken}) {
    world_.draft().EditCheckpoint(id).pinned_by = "user:ann";
  }
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
  EXPECT_EQ(*world_.view().retention_jobs, Ids{});
  world_.draft().EditCheckpoint(oldest).pinned_by.clear();
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{oldest});
}

TEST_F(RetentionRulesTest, WhatAPersonRemovedGoesThoughItIsTheBestOrTheNewest) {
  const uint64_t best = Add(1, CheckpointState::kVerified, /*best=*/true);
  const uint64_t unread = Add(2, CheckpointState::kCommitted);
  const uint64_t older = Add(3, CheckpointState::kVerified);
  const uint64_t newest = Add(4, CheckpointState::kVerified);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{unread});
  world_.draft().EditJob(1).state = JobState::kSucceeded;
  for (const uint64_t id : {best, newest}) {
    world_.draft().EditCheckpoint(id).removed_by = "user:ann";
  }
  // What goes is not counted: only one verified one is left of the two to keep.
  EXPECT_EQ(Actions(AssignmentKind::kDelete), (Ids{newest, best}));
  EXPECT_EQ(PlanRetention(world_.view(), kNow).actions.front().reason, "removed by user:ann");
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{unread});
  for (const uint64_t id : {best, newest}) {
    world_.draft().EditCheckpoint(id).state = CheckpointState::kDeleted;
  }
  world_.draft().EditCheckpoint(unread).state = CheckpointState::kVerified;
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{});
  EXPECT_EQ(world_.view().FindCheckpoint(older)->state, CheckpointState::kVerified);
}

TEST_F(RetentionRulesTest, ABrokenOneIsNotKeptForAnother) {
  const uint64_t broken = Add(1, CheckpointState::kCorrupt);
  Add(2, CheckpointState::kVerified);
  Add(3, CheckpointState::kVerified);
  JobSettings settings = World::Settings(1);
  settings.resume_from = {broken};
  world_.AddJob(settings);
  EXPECT_EQ(Actions(AssignmentKind::kDelete), Ids{broken});
}

TEST_F(RetentionRulesTest, AFailedOneIsTriedAgainLater) {
  const uint64_t id = Add(1, CheckpointState::kCommitted);
  world_.draft().EditCheckpoint(id).retry_at = kNow + absl::Seconds(30);
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{});
  EXPECT_EQ(NextRetentionRetry(world_.view(), kNow), kNow + absl::Seconds(30));
}

TEST_F(RetentionRulesTest, WithoutAReadyWorkerNothingIsAssigned) {
  Add(1, CheckpointState::kCommitted);
  world_.draft().EditWorker(1).draining = true;
  EXPECT_EQ(Actions(AssignmentKind::kVerify), Ids{});
}

TEST_F(RetentionRulesTest, OneLookSpreadsItsWorkOverTheWorkersOfThePools) {
  world_.AddWorker("b", 1);
  world_.AddWorker("c", 1);
  world_.AddWorker("elsewhere", 1, SlotKind::kCpu, "other");
  JobSettings settings = World::Settings(1);
  settings.needs.pools = {{"other", {}}, {"default", {}}};
  for (uint64_t job = 2; job <= 41; ++job) world_.AddJob(settings);
  for (uint64_t job = 1; job <= 41; ++job) {
    Checkpoint checkpoint;
    checkpoint.job_id = job;
    checkpoint.step = 1;
    checkpoint.state = CheckpointState::kCommitted;
    world_.draft().AddCheckpoint(std::move(checkpoint));
  }
  // One of them has something to do already.
  for (uint64_t id = 900; id < 905; ++id) {
    world_.draft().AddOutbox({.worker = "c", .kind = AssignmentKind::kVerify, .checkpoint_id = id});
  }
  std::map<std::string, int> of;
  for (const auto& action : PlanRetention(world_.view(), kNow).actions) ++of[action.worker];
  EXPECT_EQ(of["a"] + of["b"] + of["c"] + of["elsewhere"], 41);
  for (const char* name : {"a", "b", "elsewhere"}) {
    EXPECT_GE(of[name], 11) << name;
    EXPECT_LE(of[name], 13) << name;
  }
  EXPECT_EQ(of["c"], 41 - of["a"] - of["b"] - of["elsewhere"]);
  EXPECT_LE(of["c"], 8);
}

TEST_F(RetentionRulesTest, OneLookAsksForNoMoreThanAnEventShouldCarry) {
  for (size_t i = 0; i < kMaxCheckpointActions + 5; ++i) {
    Checkpoint checkpoint;
    checkpoint.job_id = world_.AddJob(World::Settings(1)).id;
    checkpoint.step = 1;
    checkpoint.state = CheckpointState::kCommitted;
    world_.draft().AddCheckpoint(std::move(checkpoint));
  }
  EXPECT_EQ(Actions(AssignmentKind::kVerify).size(), kMaxCheckpointActions);
}

TEST_F(RetentionRulesTest, OneLookDeletesNoMoreThanAnEventShouldCarry) {
  for (size_t i = 0; i < kMaxCheckpointActions + 5; ++i) {
    Add(static_cast<int64_t>(i + 1), CheckpointState::kVerified);
  }
  EXPECT_EQ(Actions(AssignmentKind::kDelete).size(), kMaxCheckpointActions);
}

TEST_F(RetentionRulesTest, TheLeastBusyWorkerTakesCare) {
  world_.AddWorker("b", 1);
  world_.draft().AddOutbox({.worker = "a", .kind = AssignmentKind::kVerify, .checkpoint_id = 99});
  EXPECT_EQ(PickVerifier(world_.view(), *world_.view().FindJob(1))->name, "b");
}

}  // namespace
}  // namespace muster::controller
