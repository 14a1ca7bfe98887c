#include "worker/trainer/check.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "worker/train/failure.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

trainer_spec::JobSpec Spec() {
  trainer_spec::JobSpec spec;
  spec.ranks = {.min = 2, .max = 2};
  spec.train.data.synthetic = {.samples = 256, .shape = {16}, .classes = 4};
  spec.train.model.mlp = {.hidden = {64}};
  spec.train.batch_size = 32;
  spec.train.steps = 500;
  spec.train.accumulate = 1;
  spec.train.optimizer.name = trainer_spec::OptimizerName::kAdamw;
  spec.train.optimizer.lr = 0.01;
  spec.train.optimizer.beta1 = 0.9;
  spec.train.optimizer.beta2 = 0.999;
  spec.train.optimizer.eps = 1e-8;
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  return spec;
}

TEST(Check, TellsWhatThereIsAndThatOneBatchCanBeLearnt) {
  ASSERT_OK_AND_ASSIGN(const CheckReport report, CheckRecipe(Spec(), PosixFileSystem()));
  EXPECT_THAT(report.sample_shape, ElementsAre(16));
  EXPECT_EQ(report.train_samples, 256);
  EXPECT_EQ(report.validation_samples, 25);
  EXPECT_EQ(report.classes, 4);
  EXPECT_EQ(report.parameters, 16 * 64 + 64 + 64 * 4 + 4);
  EXPECT_EQ(report.total_steps, 500);
  EXPECT_EQ(report.device, "cpu");
  EXPECT_GT(report.samples_per_second, 0);
  EXPECT_GT(report.loader_samples_per_second, report.samples_per_second);
  EXPECT_LT(report.overfit_last_loss, 0.1 * report.overfit_first_loss);
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_THAT(CheckText(report), HasSubstr("256 training, 25 validation"));
  EXPECT_EQ(nlohmann::json::parse(CheckJson(report))["parameters"], report.parameters);
}

TEST(Check, WarnsOfARateThatLearnsNothing) {
  trainer_spec::JobSpec spec = Spec();
  spec.train.optimizer.lr = 1e-9;
  ASSERT_OK_AND_ASSIGN(const CheckReport slow, CheckRecipe(spec, PosixFileSystem()));
  ASSERT_THAT(slow.warnings, SizeIs(1));
  EXPECT_THAT(slow.warnings[0], HasSubstr("could not be learnt by heart"));
}

TEST(Check, FailsAsTheRunWould) {
  trainer_spec::JobSpec spec = Spec();
  spec.train.data.synthetic.reset();
  spec.train.data.digits = {.path = "/no/such/folder", .image_size = 16};
  const absl::Status status = CheckRecipe(spec, PosixFileSystem()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/folder")));
  EXPECT_EQ(FailureClassOf(status), kDataError);
}

TEST(RateRange, SuggestsTheSteepestFall) {
  // Falls around 1e-2 as the negative of a step function of the logarithm does.
  std::vector<RatePoint> points;
  for (int i = 0; i < 60; ++i) {
    const double lr = std::pow(10.0, -6 + i * 0.1);
    points.push_back({lr, 3 - 2 / (1 + std::exp(-4 * (std::log10(lr) + 2)))});
  }
  EXPECT_NEAR(std::log10(SteepestRate(points)), -2, 0.11);
  EXPECT_EQ(SteepestRate({}), 0);
}

TEST(RateRange, EndsWhereTheLossExplodes) {
  trainer_spec::JobSpec spec = Spec();
  spec.train.optimizer = {};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kSgd;
  spec.train.optimizer.momentum = 0.9;
  ASSERT_OK_AND_ASSIGN(const RateRange range, TestRates(spec, PosixFileSystem()));
  EXPECT_GT(range.points.size(), 50u);
  EXPECT_GT(range.suggested, 1e-6);
  EXPECT_LT(range.suggested, range.points.back().lr);
}

TEST(LargestBatch, StaysWithinItsLimitOrSaysThatNothingDoes) {
  EXPECT_THAT(FindLargestBatch(Spec(), PosixFileSystem(), 1 << 20).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("one sample")));
}

}  // namespace
}  // namespace muster::worker
