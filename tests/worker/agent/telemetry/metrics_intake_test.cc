#include "worker/agent/telemetry/metrics_intake.h"

#include <gtest/gtest.h>

#include <limits>

namespace muster::worker {
namespace {

using Turn = MetricsIntake::Turn;

MetricsLine Line(uint64_t seq, uint64_t lost = 0) { return {.seq = seq, .lost = lost}; }

TEST(MetricsIntake, TakesEachLineOnceAndInItsOrder) {
  MetricsIntake intake(/*spooled=*/0);
  EXPECT_EQ(intake.TurnOf(Line(1)), Turn::kNow);
  intake.Took(Line(1));
  EXPECT_EQ(intake.TurnOf(Line(1)), Turn::kTaken);
  EXPECT_EQ(intake.TurnOf(Line(2)), Turn::kNow);  // and the disk refuses it
  EXPECT_EQ(intake.TurnOf(Line(3)), Turn::kLater) << "2 would never come into the spool after it";
  EXPECT_EQ(intake.taken(), 1u);
  EXPECT_EQ(intake.TurnOf(Line(2)), Turn::kNow);
  intake.Took(Line(2));
  EXPECT_EQ(intake.TurnOf(Line(3)), Turn::kNow);
  EXPECT_FALSE(intake.LostBefore(Line(3)).has_value());
  intake.Took(Line(3));
  EXPECT_FALSE(intake.LostAtEnd().has_value());
}

TEST(MetricsIntake, KnowsWhatAnEarlierAgentSpooled) {
  MetricsIntake intake(/*spooled=*/7);
  EXPECT_EQ(intake.TurnOf(Line(7)), Turn::kTaken);
  EXPECT_EQ(intake.TurnOf(Line(8)), Turn::kNow);
}

TEST(MetricsIntake, TellsWhatTheRankGaveUp) {
  MetricsIntake intake(/*spooled=*/4);
  EXPECT_EQ(intake.TurnOf(Line(10, /*lost=*/4)), Turn::kLater) << "5 is still to come";
  EXPECT_EQ(intake.TurnOf(Line(10, /*lost=*/9)), Turn::kNow) << "what was taken is not lost";
  const auto lost = intake.LostBefore(Line(10, 9));
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->first, 5u);
  EXPECT_EQ(lost->last, 9u);
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(intake.TurnOf(Line(most, 0)), Turn::kLater);
  EXPECT_EQ(intake.TurnOf(Line(most, most)), Turn::kNow);
}

TEST(MetricsIntake, TellsWhatNeverCameInBeforeTheRankEnded) {
  MetricsIntake intake(/*spooled=*/0);
  intake.TurnOf(Line(1));
  intake.Took(Line(1));
  intake.TurnOf(Line(2));
  intake.TurnOf(Line(3));
  const auto lost = intake.LostAtEnd();
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->first, 2u);
  EXPECT_EQ(lost->last, 3u);
}

}  // namespace
}  // namespace muster::worker
