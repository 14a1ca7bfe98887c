// When a job will be done, by how fast it gets on.
#include "controller/model/pace_rules.h"

#include <gtest/gtest.h>

namespace muster::controller {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

class PaceTest : public ::testing::Test {
 protected:
  PaceTest() { job_.attempt = 1; }
  // In seconds from the start; below zero: unknown.
  double EndAfter(int64_t step, double seconds, int64_t total = 1000) {
    NotePace(job_.attempt, job_.progress.pace, step, total, At(seconds));
    const absl::Time end = ForetoldEnd(job_);
    return end == absl::InfiniteFuture() ? -1 : absl::ToDoubleSeconds(end - kStart);
  }

  Job job_;
};

TEST_F(PaceTest, TheTimeBeforeTheFirstReportIsNoPace) {
  EXPECT_EQ(EndAfter(100, 50), -1) << "50 s may have been spent on loading";
  EXPECT_EQ(EndAfter(110, 51), -1) << "a second is too short to tell";
  EXPECT_EQ(EndAfter(130, 53), 140);
  EXPECT_EQ(EndAfter(1000, 200), 200);
}

TEST_F(PaceTest, WhoDoesNotSayHowManyStepsThereAreIsNotForetold) {
  EXPECT_EQ(EndAfter(100, 0, 0), -1);
  EXPECT_EQ(EndAfter(200, 100, 0), -1);
}

TEST_F(PaceTest, AnAttemptHasItsOwnPace) {
  EndAfter(100, 0);
  EXPECT_EQ(EndAfter(200, 100), 900);
  job_.attempt = 2;
  EXPECT_EQ(ForetoldEnd(job_), absl::InfiniteFuture());
  EXPECT_EQ(EndAfter(150, 200), -1) << "it resumed further back, on other machines";
  EXPECT_EQ(EndAfter(250, 300), 1050);
}

TEST_F(PaceTest, OnlyTheLastQuartersOfAnHourCount) {
  const double span = absl::ToDoubleSeconds(kPaceSpan);
  EndAfter(0, 0, 100'000);
  double end = 0;
  // One step a second, then half as fast for two spans.
  int64_t step = 0;
  for (double at = 60; at <= span; at += 60) end = EndAfter(step += 60, at, 100'000);
  EXPECT_EQ(end, 100'000);
  const int64_t fast = step;
  for (double at = span + 60; at <= 3 * span; at += 60) end = EndAfter(step += 30, at, 100'000);
  EXPECT_EQ(end, 3 * span + 2.0 * (100'000 - step));
  EXPECT_EQ(step, fast + static_cast<int64_t>(span));
}

TEST_F(PaceTest, AClockThatStepsBackStartsItAnew) {
  EndAfter(100, 0);
  EXPECT_EQ(EndAfter(200, 100), 900);
  EXPECT_EQ(EndAfter(300, -500), -1);
  EXPECT_EQ(EndAfter(400, -400), 200);
}

}  // namespace
}  // namespace muster::controller
