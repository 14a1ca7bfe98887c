// Weights, quotas and charges of projects, through the engine and its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/limits/fair_share.h"
#include "controller/rules/projects/project_accounts.h"
#include "tests/support/controller_fixture.h"

namespace muster::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

class ProjectRulesTest : public ControllerFixture {
 protected:
  absl::Status Set(mc::SetProject event) {
    event.project = "vision";
    return Apply(std::move(event)).status;
  }
  mc::EventResult SubmitAs(const std::string& owner, uint32_t ranks = 1) {
    auto settings = std::make_shared<mc::JobSettings>(*MakeSettings({.min_ranks = ranks}));
    settings->project = "vision";
    return Apply(mc::SubmitJob{.settings = settings, .owner = owner, .idempotency_key = ""});
  }
  mc::ProjectUse use() const { return snapshot()->UseOf("vision"); }
};

TEST_F(ProjectRulesTest, WhatWasSetOutlivesTheController) {
  ASSERT_OK(Set({.weight = 3,
                 .quota = mc::Quota{.slots = 8, .queued = 100},
                 .each_user = mc::Quota{.slots = 4, .queued = {}},
                 .users = {{"ann", mc::Quota{.slots = {}, .queued = 7}}}}));
  ASSERT_OK(Set({.weight = 2}));  // what is not given stays
  Restart();
  const mc::Project* project = snapshot()->FindProject("vision");
  ASSERT_NE(project, nullptr);
  EXPECT_EQ(project->weight, 2);
  EXPECT_EQ(project->quota, (mc::Quota{.slots = 8, .queued = 100}));
  EXPECT_EQ(project->QuotaOf("bob"), (mc::Quota{.slots = 4, .queued = {}}));
  EXPECT_EQ(project->QuotaOf("ann"), (mc::Quota{.slots = {}, .queued = 7}));
  ASSERT_OK(Set({.quota = mc::Quota(), .users = {{"ann", std::nullopt}}}));
  EXPECT_EQ(snapshot()->FindProject("vision")->quota, mc::Quota());
  EXPECT_EQ(snapshot()->FindProject("vision")->QuotaOf("ann").slots, 4u);
}

TEST_F(ProjectRulesTest, AWeightMustBeInRange) {
  EXPECT_THAT(Set({.weight = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weight must be from")));
  EXPECT_EQ(snapshot()->FindProject("vision"), nullptr);
}

TEST_F(ProjectRulesTest, AFullListOfUsersCanBeChangedAndMadeShorter) {
  const mc::Quota quota{.slots = 1, .queued = {}};
  mc::SetProject full;
  for (int i = 0; i < 1000; ++i) full.users[absl::StrCat("user", i)] = quota;
  ASSERT_OK(Set(full));
  EXPECT_OK(Set(full)) << "again";
  EXPECT_OK(Set({.users = {{"user7", mc::Quota{.slots = 2, .queued = {}}}}}));
  EXPECT_EQ(snapshot()->FindProject("vision")->QuotaOf("user7").slots, 2u);
  const auto is_full =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1000 users"));
  EXPECT_THAT(Set({.users = {{"late", quota}}}), is_full);
  EXPECT_OK(Set({.users = {{"nobody", std::nullopt}}})) << "had none";
  EXPECT_THAT(Set({.users = {{"late", quota}, {"nobody", std::nullopt}}}), is_full);
  EXPECT_OK(Set({.users = {{"late", quota}, {"user8", std::nullopt}}})) << "in place of another";
  EXPECT_OK(Set({.users = {{"user9", std::nullopt}}}));
  EXPECT_OK(Set({.users = {{"later", quota}}}));
  EXPECT_EQ(snapshot()->FindProject("vision")->users.size(), 1000u);
}

TEST_F(ProjectRulesTest, TheQueueOfAProjectAndOfAUserIsBounded) {
  ASSERT_OK(Set({.quota = mc::Quota{.slots = {}, .queued = 3},
                 .each_user = mc::Quota{.slots = {}, .queued = 2}}));
  EXPECT_OK(SubmitAs("ann").status);
  EXPECT_OK(SubmitAs("ann").status);
  EXPECT_THAT(SubmitAs("ann").status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("refused: user ann in project vision has 2 jobs in the queue")));
  EXPECT_OK(SubmitAs("bob").status);
  EXPECT_THAT(SubmitAs("cyd").status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("refused: project vision has 3 jobs in the queue")));
  ASSERT_OK(Cancel(1));
  EXPECT_EQ(use().all.queued, 2u);
  EXPECT_OK(SubmitAs("cyd").status);
}

TEST_F(ProjectRulesTest, ABatchOfSubmitsIsBoundedTogether) {
  ASSERT_OK(Set({.quota = mc::Quota{.slots = {}, .queued = 2}}));
  int accepted = 0;
  for (int i = 0; i < 4; ++i) {
    auto settings = std::make_shared<mc::JobSettings>(*MakeSettings({}));
    settings->project = "vision";
    engine_->Post(mc::SubmitJob{.settings = settings, .owner = "ann", .idempotency_key = ""},
                  [&](const mc::EventResult& result) { accepted += result.status.ok(); });
  }
  engine_->RunUntilIdle();
  EXPECT_EQ(accepted, 2);
}

TEST_F(ProjectRulesTest, SlotsAreBoundedAndGivenBack) {
  ASSERT_OK(Set({.quota = mc::Quota{.slots = 2, .queued = {}}}));
  Agent agent = ConnectNew("a", 4);
  const uint64_t first = SubmitAs("ann", 2).job_id;
  const uint64_t second = SubmitAs("bob", 1).job_id;
  EXPECT_EQ(state(first), mc::JobState::kStarting);
  EXPECT_EQ(state(second), mc::JobState::kPending);
  EXPECT_EQ(use().all, (mc::Use{.slots = 2, .queued = 1}));
  EXPECT_EQ(use().Of("bob"), (mc::Use{.slots = 0, .queued = 1}));
  EXPECT_THAT(SubmitAs("ann", 3).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: over quota")));
  const auto start = StartRanks(agent);
  for (uint32_t rank : {0u, 1u}) ReportExit(agent, start.fence, rank, {.succeeded = true});
  EXPECT_EQ(state(second), mc::JobState::kStarting);
  EXPECT_EQ(use().all, (mc::Use{.slots = 1, .queued = 0}));
  Restart();
  EXPECT_EQ(use().all, (mc::Use{.slots = 1, .queued = 0}));
}

TEST_F(ProjectRulesTest, AnEndedAttemptIsCharged) {
  Agent agent = ConnectNew("a", 2);
  SubmitAs("ann", 2);
  const auto start = StartRanks(agent);
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(absl::Seconds(1));
    Beat(agent);
  }
  for (uint32_t rank : {0u, 1u}) ReportExit(agent, start.fence, rank, {.succeeded = true});
  Restart();
  const mc::Project* project = snapshot()->FindProject("vision");
  ASSERT_NE(project, nullptr);
  EXPECT_THAT(project->used.slot_seconds, DoubleNear(120, 0.01));
  EXPECT_EQ(project->weight, 1);
}

TEST_F(ProjectRulesTest, WhoSetsTheWallClockChangesNothingOfTheCharge) {
  Agent agent = ConnectNew("a", 2);
  SubmitAs("ann", 2);
  const auto start = StartRanks(agent);
  const auto account = [&] {
    return mc::AccountOf(*snapshot(), "vision", clock_.SinceBoot(), mc::kUseHalfLife);
  };
  for (int i = 0; i < 60; ++i) {
    if (i == 30) clock_.JumpWall(absl::Hours(10'000));
    clock_.Advance(absl::Seconds(1));
    Beat(agent);
  }
  EXPECT_THAT(account().used_slot_seconds, DoubleNear(120, 0.01)) << "while it runs";
  for (uint32_t rank : {0u, 1u}) ReportExit(agent, start.fence, rank, {.succeeded = true});
  clock_.JumpWall(-absl::Hours(30'000));
  EXPECT_THAT(snapshot()->FindProject("vision")->used.slot_seconds, DoubleNear(120, 0.01));
  EXPECT_THAT(account().used_slot_seconds, DoubleNear(120, 0.01));
}

}  // namespace
}  // namespace muster::testing
