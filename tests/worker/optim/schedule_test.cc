#include "worker/optim/schedule.h"

#include <gtest/gtest.h>

namespace muster::worker {
namespace {

TEST(LearningRate, RisesLinearlyAndReachesThePeakAtTheEndOfWarmUp) {
  const ScheduleConfig config = {ScheduleName::kConstant, 0.8, 4, 0, 10};
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 1), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(config, 3), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(config, 4), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(config, 9), 0.8);
}

TEST(LearningRate, CosineFallsFromThePeakToItsFinalFraction) {
  const ScheduleConfig config = {ScheduleName::kCosine, 1.0, 2, 0.1, 12};
  EXPECT_DOUBLE_EQ(LearningRate(config, 2), 1.0);
  EXPECT_NEAR(LearningRate(config, 7), 0.55, 1e-12);
  EXPECT_NEAR(LearningRate(config, 12), 0.1, 1e-12);
  EXPECT_NEAR(LearningRate(config, 1000), 0.1, 1e-12);
  for (int64_t step = 3; step < 12; ++step)
    EXPECT_LT(LearningRate(config, step), LearningRate(config, step - 1));
}

TEST(LearningRate, WarmUpAsLongAsTheRunNeedsNoCosine) {
  const ScheduleConfig config = {ScheduleName::kCosine, 1.0, 10, 0, 10};
  EXPECT_DOUBLE_EQ(LearningRate(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 10), 1.0);
}

TEST(LearningRate, WarmUpMayStartAboveZero) {
  ScheduleConfig config = {ScheduleName::kConstant, 1.0, 4, 0, 10};
  config.start_fraction = 0.2;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(config, 3), 1.0);
}

TEST(LearningRate, StepFallsAtEachMilestone) {
  ScheduleConfig config = {ScheduleName::kStep, 2.0, 2, 0, 10};
  config.milestones = {4, 8};
  config.gamma = 0.5;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 3), 2.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 4), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 8), 0.5);
}

TEST(LearningRate, PolynomialOfPowerOneIsAStraightLine) {
  ScheduleConfig config = {ScheduleName::kPolynomial, 1.0, 0, 0.5, 10};
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(config, 5), 0.75);
  EXPECT_DOUBLE_EQ(LearningRate(config, 10), 0.5);
  config.power = 2;
  EXPECT_DOUBLE_EQ(LearningRate(config, 5), 0.625);
}

TEST(LearningRate, OneCycleRisesToThePeakAndFallsToItsEnd) {
  ScheduleConfig config = {ScheduleName::kOneCycle, 1.0, 0, 0.01, 10};
  config.start_fraction = 0.04;
  config.rise_fraction = 0.3;
  EXPECT_NEAR(LearningRate(config, 0), 0.04, 1e-12);
  EXPECT_NEAR(LearningRate(config, 1), 0.52, 1e-12);
  EXPECT_DOUBLE_EQ(LearningRate(config, 2), 1.0);
  EXPECT_NEAR(LearningRate(config, 9), 0.01, 1e-12);
  EXPECT_NEAR(LearningRate(config, 99), 0.01, 1e-12);
  config.rise_fraction = 0.01;  // less than a step
  EXPECT_LE(LearningRate(config, 0), 1.0);
  EXPECT_NEAR(LearningRate(config, 9), 0.01, 1e-12);
}

}  // namespace
}  // namespace muster::worker
