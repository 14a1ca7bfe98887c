#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(RealClockTest, TimeSinceBootNeverGoesBack) {
  RealClock clock;
  const absl::Duration first = clock.SinceBoot();
  EXPECT_GT(first, absl::ZeroDuration());
  EXPECT_GE(clock.SinceBoot(), first);
}

TEST(SimulatedClockTest, StandsStillUntilAdvanced) {
  SimulatedClock clock;
  const absl::Time now = clock.Now();
  const absl::Duration since_boot = clock.SinceBoot();
  EXPECT_EQ(clock.Now(), now);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(clock.Now(), now + absl::Seconds(5));
  EXPECT_EQ(clock.SinceBoot(), since_boot + absl::Seconds(5));
}

}  // namespace
}  // namespace muster
