#include "controller/policy/checkpoints/resume_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/model/job_links.h"
#include "tests/controller/policy/world.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Which = ResumeRequest::Which;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

class ResumeRulesTest : public ::testing::Test {
 protected:
  static JobSettings Named(const std::string& name, const std::string& project = "p") {
    JobSettings settings = World::Settings(1);
    settings.name = name;
    settings.project = project;
    return settings;
  }
  uint64_t AddJob(const std::string& name, const std::string& project = "p") {
    return world_.AddJob(Named(name, project)).id;
  }
  uint64_t Save(uint64_t job, int64_t step, CheckpointState state = CheckpointState::kVerified,
                bool best = false) {
    Checkpoint row;
    row.job_id = job;
    row.step = step;
    row.state = state;
    row.best = best;
    if (state != CheckpointState::kWriting) row.path = "/ckpt";
    return world_.draft().AddCheckpoint(std::move(row)).id;
  }
  absl::StatusOr<std::vector<uint64_t>> Settle(const ResumeRequest& request,
                                               const std::string& name = "new") {
    world_.view();  // brings the lists up to date
    return ResolveResume(world_.draft(), Named(name), request);
  }

  // What it was settled to, without a fault.
  static std::vector<uint64_t> Ids(const absl::StatusOr<std::vector<uint64_t>>& settled) {
    EXPECT_OK(settled);
    return settled.ok() ? *settled : std::vector<uint64_t>();
  }

  World world_;
};

TEST_F(ResumeRulesTest, AJobMeansItsNewestRestorableOnes) {
  const uint64_t job = AddJob("a");
  const uint64_t five = Save(job, 5);
  const uint64_t seven = Save(job, 7, CheckpointState::kCommitted);
  Save(job, 8, CheckpointState::kCorrupt);
  Save(job, 9, CheckpointState::kWriting);
  Save(job, 6, CheckpointState::kDeleted);
  const uint64_t again = Save(job, 5, CheckpointState::kCommitted);
  EXPECT_THAT(Ids(Settle({.job_id = job})), ElementsAre(seven, again, five));
  EXPECT_THAT(Ids(Settle({.job_name = "a"})), ElementsAre(seven, again, five));
  for (int64_t step = 10; step < 30; ++step) Save(job, step);
  EXPECT_EQ(Settle({.job_id = job})->size(), kMaxResumeCandidates);
  EXPECT_EQ(world_.draft().view().FindCheckpoint(Settle({.job_id = job})->back())->step, 22);
}

TEST_F(ResumeRulesTest, OneCheckpointMeansThatOneAlone) {
  const uint64_t job = AddJob("a");
  const uint64_t best = Save(job, 5, CheckpointState::kVerified, true);
  const uint64_t newest = Save(job, 7);
  EXPECT_THAT(Ids(Settle({.job_id = job, .which = Which::kStep, .step = 5})), ElementsAre(best));
  EXPECT_THAT(Ids(Settle({.job_id = job, .which = Which::kBest})), ElementsAre(best));
  EXPECT_THAT(Ids(Settle({.job_id = job, .which = Which::kNewest})), ElementsAre(newest));
}

TEST_F(ResumeRulesTest, WhatIsNotThereIsNotFoundWithTheWayOut) {
  const uint64_t job = AddJob("a");
  Save(job, 5);
  EXPECT_THAT(
      Settle({.job_id = 99}),
      StatusIs(kNotFound, HasSubstr("checkpoint.resume_from: job 99: no such job; `muster")));
  EXPECT_THAT(Settle({.job_name = "b"}), StatusIs(kNotFound, HasSubstr("job `b`: no such job")));
  EXPECT_THAT(Settle({.job_id = job, .task = 3}),
              StatusIs(kNotFound, HasSubstr("job 1_3: no such job")));
  EXPECT_THAT(
      Settle({.job_id = job, .which = Which::kStep, .step = 6}),
      StatusIs(kNotFound, HasSubstr("job 1 (a) has no checkpoint of step 6; there are those "
                                    "of step 5 (`muster ckpt ls 1`)")));
  EXPECT_THAT(Settle({.job_id = job, .which = Which::kBest}),
              StatusIs(kNotFound, HasSubstr("`1@newest`")));
}

TEST_F(ResumeRulesTest, AJobWithNothingToRestoreIsRefusedWithTheReason) {
  const uint64_t job = AddJob("a");
  EXPECT_THAT(Settle({.job_id = job}),
              StatusIs(kRefused, AllOf(HasSubstr("refused: "), HasSubstr("it has saved none"),
                                       HasSubstr("leave it out to begin from nothing"))));
  const uint64_t writing = Save(job, 5, CheckpointState::kWriting);
  EXPECT_THAT(Settle({.job_id = job}),
              StatusIs(kRefused, HasSubstr("is being written: try again")));
  Checkpoint& row = world_.draft().EditCheckpoint(writing);
  row.state = CheckpointState::kCorrupt;
  row.path = "/ckpt";
  row.message = "block 3 differs";
  EXPECT_THAT(Settle({.job_id = job}),
              StatusIs(kRefused, HasSubstr("its newest, of step 5, is CORRUPT (block 3 differs)")));
  Save(job, 4);
  EXPECT_THAT(Settle({.job_id = job, .which = Which::kStep, .step = 5}),
              StatusIs(kRefused, HasSubstr("of step 5 cannot be restored: it is CORRUPT")));
}

TEST_F(ResumeRulesTest, WhatIsBeingDeletedIsNoLongerThere) {
  const uint64_t job = AddJob("a");
  const uint64_t going = Save(job, 5);
  world_.draft().AddOutbox(
      {.worker = "w", .kind = AssignmentKind::kDelete, .checkpoint_id = going});
  EXPECT_THAT(Settle({.job_id = job}),
              StatusIs(kRefused, HasSubstr("of step 5, is being deleted")));
  EXPECT_THAT(Ids(Settle({.automatic = true}, "a")), IsEmpty());
  const uint64_t stays = Save(job, 4);
  EXPECT_THAT(Ids(Settle({.job_id = job})), ElementsAre(stays));
  EXPECT_THAT(Settle({.job_id = job, .which = Which::kStep, .step = 5}),
              StatusIs(kRefused, HasSubstr("it is being deleted")));
}

TEST_F(ResumeRulesTest, WhatAPersonRemovedIsBegunFromOnlyWhereThereIsNothingElse) {
  const uint64_t job = AddJob("a");
  const uint64_t removed = Save(job, 5);
  world_.draft().EditCheckpoint(removed).removed_by = "user:ann";
  EXPECT_THAT(Settle({.job_id = job}),
              StatusIs(kRefused, HasSubstr("of step 5, is being deleted")));
  EXPECT_THAT(Ids(Settle({.automatic = true}, "a")), IsEmpty());
  EXPECT_EQ(NewestToResume(world_.view(), Named("a")), 0u);
  const auto candidates = [&] {
    return ResumeCandidates(world_.view(), *world_.view().FindJob(job));
  };
  EXPECT_THAT(candidates(), ElementsAre(removed)) << "rather than nothing";
  const uint64_t stays = Save(job, 4);
  EXPECT_THAT(candidates(), ElementsAre(stays));
  EXPECT_THAT(Ids(Settle({.job_id = job})), ElementsAre(stays));
}

TEST_F(ResumeRulesTest, AnAttemptIsOfferedNothingThatIsBeingDeleted) {
  const uint64_t id = AddJob("a");
  const uint64_t going = Save(id, 5);
  world_.draft().AddOutbox(
      {.worker = "w", .kind = AssignmentKind::kDelete, .checkpoint_id = going});
  const auto candidates = [&] {
    return ResumeCandidates(world_.view(), *world_.view().FindJob(id));
  };
  EXPECT_THAT(candidates(), ElementsAre(going)) << "rather than nothing";
  const uint64_t stays = Save(id, 4);
  EXPECT_THAT(candidates(), ElementsAre(stays));
}

// Its row alone tells a restarted job where its best one is: without that it takes the next one
// that it validates for the best, and retention deletes the true one.
TEST_F(ResumeRulesTest, AnAttemptIsOfferedItsBestOneHoweverOldThatIs) {
  const uint64_t nine = Save(AddJob("a"), 9);
  JobSettings settings = Named("b");
  settings.resume_from = {nine};
  const uint64_t id = world_.AddJob(settings).id;
  const uint64_t former = Save(id, 1, CheckpointState::kVerified, true);
  const uint64_t best = Save(id, 2, CheckpointState::kCommitted, true);
  std::vector<uint64_t> expected;
  for (int64_t step = 10; step < 30; ++step) {
    const uint64_t saved = Save(id, step);
    if (step >= 22) expected.insert(expected.begin(), saved);
  }
  expected.push_back(best);
  expected.push_back(nine);
  const auto candidates = [&] {
    return ResumeCandidates(world_.view(), *world_.view().FindJob(id));
  };
  EXPECT_EQ(candidates(), expected) << "after the newest ones, before another job's";
  world_.draft().EditCheckpoint(expected.front()).best = true;
  EXPECT_EQ(candidates(), expected) << "an attempt that must go on from one before needs it";
  world_.draft().EditCheckpoint(best).state = CheckpointState::kCorrupt;
  expected[kMaxResumeCandidates] = former;
  EXPECT_EQ(candidates(), expected);
  world_.draft().EditCheckpoint(former).state = CheckpointState::kDeleted;
  expected.erase(expected.begin() + kMaxResumeCandidates);
  EXPECT_EQ(candidates(), expected);
}

TEST_F(ResumeRulesTest, AutoTakesTheNewestJobOfTheNameAndProjectThatHasAny) {
  EXPECT_THAT(Ids(Settle({.automatic = true}, "a")), IsEmpty());
  const uint64_t first = AddJob("a");
  const uint64_t second = AddJob("a");
  const uint64_t third = AddJob("a");
  const uint64_t elsewhere = AddJob("a", "q");
  const uint64_t other = AddJob("b");
  AddJob("a");
  const uint64_t old = Save(first, 9);
  const uint64_t wanted = Save(second, 5);
  Save(third, 7, CheckpointState::kCorrupt);
  Save(elsewhere, 8);
  Save(other, 8);
  EXPECT_THAT(Ids(Settle({.automatic = true}, "a")), ElementsAre(wanted));
  world_.draft().EditCheckpoint(wanted).state = CheckpointState::kDeleted;
  EXPECT_THAT(Ids(Settle({.automatic = true}, "a")), ElementsAre(old));
}

TEST_F(ResumeRulesTest, ATaskOfAnArrayIsFoundByItsNumber) {
  for (uint32_t index = 3; index < 6; ++index) {
    world_.AddJob(Named("a")).array = {.array_id = 1, .index = index, .at_a_time = 0};
  }
  const uint64_t wanted = Save(2, 5);
  EXPECT_THAT(Ids(Settle({.job_id = 1, .task = 4})), ElementsAre(wanted));
  EXPECT_THAT(Settle({.job_id = 1, .task = 6}), StatusIs(kNotFound, HasSubstr("job 1_6")));
  EXPECT_THAT(Settle({.job_id = 1, .task = 2}), StatusIs(kNotFound, HasSubstr("job 1_2")));
}

TEST_F(ResumeRulesTest, AnAttemptTriesItsOwnFirstAndNeverNothingInstead) {
  const uint64_t source = AddJob("a");
  const uint64_t nine = Save(source, 9);
  const uint64_t seven = Save(source, 7);
  JobSettings settings = Named("b");
  settings.resume_from = {nine, seven};
  const uint64_t id = world_.AddJob(settings).id;
  const auto job = [&]() -> const Job& { return *world_.view().FindJob(id); };
  EXPECT_THAT(ResumeCandidates(world_.view(), job()), ElementsAre(nine, seven));
  const uint64_t own = Save(id, 8);
  EXPECT_THAT(ResumeCandidates(world_.view(), job()), ElementsAre(own, nine, seven));
  for (uint64_t gone : {nine, seven}) {
    world_.draft().EditCheckpoint(gone).state = CheckpointState::kDeleted;
    world_.draft().EditCheckpoint(gone).message = "by hand";
  }
  EXPECT_THAT(ResumeCandidates(world_.view(), job()), ElementsAre(own));
  EXPECT_EQ(WhyNothingToResume(world_.view(), job()), std::nullopt);
  world_.draft().EditCheckpoint(own).state = CheckpointState::kCorrupt;
  const std::string why = WhyNothingToResume(world_.view(), job()).value_or("");
  EXPECT_THAT(why, HasSubstr("it was to begin from job 1 (a), step 9, which is DELETED (by hand), "
                             "as are the 1 after it"));
  EXPECT_THAT(why, HasSubstr("submit it anew"));
}

TEST_F(ResumeRulesTest, OnlyAJobThatCommittedNothingBeginsFromNothing) {
  const uint64_t id = AddJob("a");
  const auto why = [&] { return WhyNothingToResume(world_.view(), *world_.view().FindJob(id)); };
  EXPECT_EQ(why(), std::nullopt);
  const uint64_t failed = Save(id, 3, CheckpointState::kWriting);
  EXPECT_EQ(why(), std::nullopt);
  world_.draft().EditCheckpoint(failed).state = CheckpointState::kDeleted;
  EXPECT_EQ(why(), std::nullopt) << "its first save failed: there was none";
  const uint64_t five = Save(id, 5);
  const uint64_t nine = Save(id, 9, CheckpointState::kCommitted);
  EXPECT_EQ(why(), std::nullopt);
  Checkpoint& newest = world_.draft().EditCheckpoint(nine);
  newest.state = CheckpointState::kCorrupt;
  newest.message = "block 3 differs";
  EXPECT_EQ(why(), std::nullopt) << "the one before is whole";
  world_.draft().EditCheckpoint(five).state = CheckpointState::kCorrupt;
  EXPECT_THAT(why().value_or(""),
              AllOf(HasSubstr("the newest, of step 9, is CORRUPT (block 3 differs)"),
                    HasSubstr("submit it anew")));
}

}  // namespace
}  // namespace muster::controller
