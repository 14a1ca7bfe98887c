#include "controller/policy/limits/fair_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::controller {
namespace {

using ::testing::DoubleNear;

constexpr absl::Duration kHalf = absl::Hours(1);
const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(FairShareTest, UseLosesHalfItsWorthEachHalfLife) {
  const DecayedUse used{.slot_seconds = 800, .at = kStart};
  EXPECT_DOUBLE_EQ(DecayedAt(used, kStart, kHalf), 800);
  EXPECT_DOUBLE_EQ(DecayedAt(used, kStart + kHalf, kHalf), 400);
  EXPECT_DOUBLE_EQ(DecayedAt(used, kStart + 3 * kHalf, kHalf), 100);
  EXPECT_DOUBLE_EQ(DecayedAt(used, kStart - kHalf, kHalf), 800) << "a clock that was set back";
  EXPECT_EQ(DecayedAt(DecayedUse(), kStart, kHalf), 0);
}

TEST(FairShareTest, AShortHoldIsWorthItsSlotSeconds) {
  EXPECT_THAT(HoldWorth(4, kStart, kStart + absl::Seconds(10), absl::Hours(1000)),
              DoubleNear(40, 0.001));
  EXPECT_EQ(HoldWorth(4, kStart, kStart, kHalf), 0);
  EXPECT_EQ(HoldWorth(4, kStart, kStart - absl::Seconds(1), kHalf), 0);
}

// Cutting a hold in two changes nothing: the first half ages while the second runs.
TEST(FairShareTest, ChargesInPartsAddUpToTheWhole) {
  const absl::Time middle = kStart + absl::Minutes(40);
  const absl::Time end = kStart + absl::Minutes(150);
  const DecayedUse whole = Charge(DecayedUse(), 3, kStart, end, kHalf);
  const DecayedUse parts =
      Charge(Charge(DecayedUse(), 3, kStart, middle, kHalf), 3, middle, end, kHalf);
  EXPECT_THAT(parts.slot_seconds, DoubleNear(whole.slot_seconds, 1e-6));
  EXPECT_EQ(parts.at, end);
}

TEST(FairShareTest, AnEndlessHoldIsWorthAHalfLifeOverLnTwo) {
  EXPECT_THAT(HoldWorth(1, kStart, kStart + 100 * kHalf, kHalf), DoubleNear(3600 / 0.693147, 0.1));
}

TEST(FairShareTest, WeightAndSlotsInHandMoveTheKey) {
  EXPECT_LT(ShareKey(100, 0, 2), ShareKey(100, 0, 1));
  EXPECT_LT(ShareKey(100, 0, 1), ShareKey(100, 1, 1));
}

}  // namespace
}  // namespace muster::controller
