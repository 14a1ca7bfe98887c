#include "controller/policy/limits/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Optional;

class QuotaTest : public ::testing::Test {
 protected:
  QuotaHolder Holder(const std::string& user) const { return {&project_, project_.name, user}; }

  const std::string ann_ = "ann";
  const std::string bob_ = "bob";
  Project project_{.name = "vision",
                   .weight = 1,
                   .quota = {.slots = 8, .queued = 5},
                   .each_user = {.slots = 6, .queued = 4},
                   .users = {{"bob", {.slots = 1, .queued = {}}}},
                   .used = {}};
  ProjectUse use_{.all = {.slots = 5, .queued = 4}, .users = {{"ann", {.slots = 5, .queued = 4}}}};
};

TEST_F(QuotaTest, TheTightestBoundCounts) {
  EXPECT_EQ(WhyOverSlots(Holder(ann_), use_, 1), std::nullopt);
  EXPECT_THAT(WhyOverSlots(Holder(ann_), use_, 2),
              Optional(HasSubstr("user ann in project vision holds 5 of its 6 slots and the job "
                                 "needs 2")));
  EXPECT_THAT(WhyOverSlots(Holder(ann_), use_, 4),
              Optional(HasSubstr("project vision holds 5 of its 8 slots")));
  EXPECT_EQ(WhyOverSlots(Holder(bob_), use_, 1), std::nullopt);
  EXPECT_THAT(WhyOverSlots(Holder(bob_), use_, 2), Optional(HasSubstr("holds 0 of its 1 slots")));
}

TEST_F(QuotaTest, TheQueueHasABound) {
  EXPECT_TRUE(MayQueue(Holder(bob_), use_, 1).ok());
  EXPECT_THAT(MayQueue(Holder(ann_), use_, 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("refused: user ann")));
  EXPECT_THAT(MayQueue(Holder(bob_), use_, 2),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("refused: project vision")));
}

TEST_F(QuotaTest, WhatIsNotSetIsNotBounded) {
  const QuotaHolder nobody{nullptr, project_.name, ann_};
  EXPECT_TRUE(MayQueue(nobody, use_, 1'000'000).ok());
  EXPECT_EQ(WhyOverSlots(nobody, use_, 1'000'000), std::nullopt);
  EXPECT_TRUE(FitsQuota(nobody, 1'000'000).ok());
}

TEST_F(QuotaTest, AJobLargerThanItsQuotaIsRefused) {
  EXPECT_TRUE(FitsQuota(Holder(ann_), 6).ok());
  EXPECT_THAT(FitsQuota(Holder(ann_), 7),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("refused: over quota: user ann in project vision may hold 6 slots "
                                 "and the job needs 7; ask for fewer")))
      << "whatever is held now, of which it says nothing";
}

}  // namespace
}  // namespace muster::controller
