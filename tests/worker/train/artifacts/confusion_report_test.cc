#include "worker/train/artifacts/confusion_report.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace muster::worker {
namespace {

TEST(ConfusionReport, HasALineForEachTrueClass) {
  const at::Tensor confusion = at::arange(4, at::kLong).view({2, 2});
  EXPECT_EQ(ConfusionCsv(confusion), "true\\predicted,0,1\n0,0,1\n1,2,3\n");
  EXPECT_EQ(PerClassCsv(confusion),
            "class,samples,correct,accuracy\n0,1,0,0.000000\n1,5,3,0.600000\n");
}

TEST(ConfusionReport, AClassWithoutSamplesHasNoAccuracy) {
  EXPECT_EQ(PerClassCsv(at::zeros({1, 1}, at::kLong)), "class,samples,correct,accuracy\n0,0,0,\n");
}

}  // namespace
}  // namespace muster::worker
