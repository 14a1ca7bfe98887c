#include "cli/output/metric_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::cli {
namespace {

using ::testing::ElementsAre;

TEST(MetricFold, AFewValuesAreTheirOwnCurve) {
  MetricFold fold;
  for (const double value : {3.0, 1.0, 4.0, 1.5}) fold.Add(value);
  EXPECT_EQ(fold.count(), 4u);
  EXPECT_EQ(fold.first(), 3);
  EXPECT_EQ(fold.last(), 1.5);
  EXPECT_EQ(fold.least(), 1);
  EXPECT_EQ(fold.most(), 4);
  EXPECT_THAT(fold.Curve(), ElementsAre(3, 1, 4, 1.5));
}

TEST(MetricFold, ManyTakeNoMoreRoomAndTheExtremesStay) {
  MetricFold fold;
  constexpr int kValues = 1'000'000;
  for (int i = 0; i < kValues; ++i) fold.Add(i == 777'777 ? 1e9 : i);
  EXPECT_EQ(fold.count(), static_cast<uint64_t>(kValues));
  EXPECT_EQ(fold.most(), 1e9);
  const std::vector<double> curve = fold.Curve();
  EXPECT_LE(curve.size(), MetricFold::kMostMeans);
  EXPECT_GT(curve.size(), MetricFold::kMostMeans / 4);
  // Equal parts of a line have their middles as means.
  const double step = curve[1] - curve[0];
  EXPECT_NEAR(curve[0], (step - 1) / 2, 1e-6);
  EXPECT_NEAR(curve[100] - curve[99], step, 1e-6);
}

TEST(MetricFold, WhatIsNoNumberIsNeitherLeastNorMost) {
  MetricFold fold;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  fold.Add(nan);
  EXPECT_TRUE(std::isnan(fold.least()));
  fold.Add(2);
  fold.Add(nan);
  EXPECT_EQ(fold.least(), 2);
  EXPECT_EQ(fold.most(), 2);
  EXPECT_TRUE(std::isnan(fold.last()));
}

}  // namespace
}  // namespace muster::cli
