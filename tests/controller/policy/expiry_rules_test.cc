#include "controller/policy/expiry_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(100'000'000);

class ExpiryTest : public ::testing::Test {
 protected:
  // Ended so long ago.
  uint64_t AddEnded(absl::Duration ago, JobSettings settings = World::Settings(1)) {
    Job& job = world_.AddJob(std::move(settings));
    job.state = JobState::kSucceeded;
    job.finished = kNow - ago;
    return job.id;
  }
  JobSettings Named(const std::string& name) {
    JobSettings settings = World::Settings(1);
    settings.name = name;
    return settings;
  }
  void AddCheckpoint(uint64_t job_id, CheckpointState state) {
    Checkpoint row;
    row.job_id = job_id;
    row.state = state;
    world_.draft().AddCheckpoint(std::move(row));
  }
  // The jobs of each finding.
  std::vector<std::vector<uint64_t>> Found(ExpirySettings settings = {.after = absl::Hours(1)},
                                           size_t most = 256) {
    std::vector<std::vector<uint64_t>> found;
    for (const Finding& finding : FindExpiredJobs(world_.view(), settings, kNow, most)) {
      found.emplace_back();
      for (const auto& job : std::get<JobsExpired>(finding).jobs) found.back().push_back(job.id);
    }
    return found;
  }
  JobsExpired First() {
    return std::get<JobsExpired>(
        FindExpiredJobs(world_.view(), {.after = absl::Hours(1)}, kNow).front());
  }

  World world_;
};

TEST_F(ExpiryTest, WhatEndedLongAgoGoesTheOldestFirst) {
  AddEnded(absl::Hours(2));
  AddEnded(absl::Hours(3));
  AddEnded(absl::Minutes(59));
  world_.AddJob(World::Settings(1));
  EXPECT_THAT(Found(), ElementsAre(ElementsAre(2), ElementsAre(1)));
  EXPECT_THAT(Found({.after = absl::Hours(1)}, 1), ElementsAre(ElementsAre(2)));
  EXPECT_THAT(Found({.after = absl::InfiniteDuration()}), IsEmpty());
}

TEST_F(ExpiryTest, BeyondTheirNumberTheOldestGoSooner) {
  for (int minutes = 1; minutes <= 5; ++minutes) AddEnded(absl::Minutes(minutes));
  world_.AddJob(World::Settings(1));
  EXPECT_THAT(Found({.after = absl::InfiniteDuration(), .most = 3}),
              ElementsAre(ElementsAre(5), ElementsAre(4)));
  EXPECT_THAT(Found({.after = absl::InfiniteDuration(), .most = 5}), IsEmpty());
}

TEST_F(ExpiryTest, WhatStillHasACheckpointOrAProcessStays) {
  AddEnded(absl::Hours(2));
  AddCheckpoint(1, CheckpointState::kDeleted);
  for (const CheckpointState state :
       {CheckpointState::kWriting, CheckpointState::kCommitted, CheckpointState::kVerified,
        CheckpointState::kCorrupt}) {
    AddCheckpoint(AddEnded(absl::Hours(2)), state);
  }
  EXPECT_THAT(Found(), ElementsAre(ElementsAre(1)));
  world_.Place(1, {"a"}, JobState::kFailed);
  EXPECT_THAT(Found(), IsEmpty()) << "nobody knows that its rank is dead";
  world_.draft().EditRank(1, 0).holds_slots = false;
  EXPECT_THAT(Found(), ElementsAre(ElementsAre(1)));
}

TEST_F(ExpiryTest, WhatAnotherJobNamesStaysAsLongAsThatOne) {
  AddEnded(absl::Hours(5));
  JobSettings waiting = World::Settings(1);
  waiting.scheduling.after = {{.job_id = 1}};
  const uint64_t second = world_.AddJob(waiting).id;
  AddEnded(absl::Hours(4));
  AddCheckpoint(3, CheckpointState::kDeleted);
  JobSettings resuming = World::Settings(1);
  resuming.resume_from = {1};
  AddEnded(absl::Minutes(1), resuming);
  EXPECT_THAT(Found(), IsEmpty());
  Job& ended = world_.draft().EditJob(second);
  ended.state = JobState::kCancelled;
  ended.finished = kNow - absl::Hours(2);
  EXPECT_THAT(Found(), ElementsAre(ElementsAre(2))) << "and then what it named";
}

TEST_F(ExpiryTest, TheTasksOfAnArrayGoTogether) {
  for (uint32_t i = 0; i < 3; ++i) {
    const uint64_t id = AddEnded(absl::Hours(3 - i));
    world_.draft().EditJob(id).array = {.array_id = 1, .index = i};
  }
  EXPECT_THAT(Found({.after = absl::Minutes(90)}), IsEmpty()) << "the last ended an hour ago";
  EXPECT_THAT(Found({.after = absl::Minutes(30)}), ElementsAre(ElementsAre(1, 2, 3)));
  EXPECT_THAT(Found({.after = absl::Minutes(30)}, 1), ElementsAre(ElementsAre(1, 2, 3)))
      << "however many there are";
}

TEST_F(ExpiryTest, ANameGoesToTheNewestThatStays) {
  const uint64_t saved = AddEnded(absl::Hours(9), Named("digits"));
  AddCheckpoint(saved, CheckpointState::kVerified);
  AddEnded(absl::Hours(8), Named("digits"));
  AddEnded(absl::Hours(7), Named("other"));
  const auto found = FindExpiredJobs(world_.view(), {.after = absl::Hours(1)}, kNow);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(std::get<JobsExpired>(found[0]).jobs.front().heir, saved);
  EXPECT_EQ(std::get<JobsExpired>(found[1]).jobs.front().heir, 0u);
}

TEST_F(ExpiryTest, AFindingIsVoidOnceTheJobIsWantedAgain) {
  AddEnded(absl::Hours(2));
  const JobsExpired finding = First();
  EXPECT_TRUE(MayStillExpire(world_.view(), finding));
  JobSettings waiting = World::Settings(1);
  waiting.scheduling.after = {{.job_id = 1}};
  Job& late = world_.AddJob(waiting);
  EXPECT_FALSE(MayStillExpire(world_.view(), finding)) << "it came since the look";
  late.settings = std::make_shared<const JobSettings>(World::Settings(1));
  EXPECT_TRUE(MayStillExpire(world_.view(), finding));
  Job& job = world_.draft().EditJob(1);
  job.state = JobState::kPending;
  EXPECT_FALSE(MayStillExpire(world_.view(), finding)) << "it was queued again";
  job.state = JobState::kSucceeded;
  job.finished = kNow;
  EXPECT_FALSE(MayStillExpire(world_.view(), finding)) << "and has ended anew";
}

}  // namespace
}  // namespace muster::controller
