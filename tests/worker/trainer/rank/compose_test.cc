#include "worker/trainer/rank/compose.h"

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/rank/rank_program.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

trainer_spec::JobSpec SyntheticSpec(std::vector<uint32_t> shape) {
  trainer_spec::JobSpec spec;
  spec.train.data.synthetic = {.samples = 100, .shape = std::move(shape), .classes = 4};
  spec.train.batch_size = 30;
  spec.train.optimizer.lr = 0.5;
  spec.train.optimizer.layer_decay = 1;
  spec.train.optimizer.decay_norms_and_biases = true;
  return spec;
}

TEST(Compose, BuildsDataModelAndOptimizerOfTheSpec) {
  trainer_spec::JobSpec spec = SyntheticSpec({1, 8, 8});
  spec.train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kSgd;
  spec.train.optimizer.momentum = 0.9;
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  ASSERT_OK(model);
  EXPECT_EQ((*model)->parameters().back().name, "fc.bias");
  const auto optimizer = BuildOptimizer(spec.train.optimizer, **model);
  ASSERT_OK(optimizer);
  EXPECT_EQ((*optimizer)->state().front().name, "momentum.conv1.weight");
}

TEST(Compose, FrozenGroupsAreOutOfTheOptimizerAndNeedNoGradient) {
  trainer_spec::JobSpec spec = SyntheticSpec({1, 8, 8});
  spec.train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kSgd;
  spec.train.optimizer.momentum = 0.9;
  spec.train.optimizer.groups = {{.pattern = "fc.*", .lr_scale = 2, .weight_decay = 0},
                                 {.pattern = "*", .frozen = true}};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  ASSERT_OK(model);
  const auto optimizer = BuildOptimizer(spec.train.optimizer, **model);
  ASSERT_OK(optimizer);
  ASSERT_EQ((*optimizer)->state().size(), 2u);
  EXPECT_EQ((*optimizer)->state().front().name, "momentum.fc.weight");
  for (const ModelTensor& entry : (*model)->parameters())
    EXPECT_EQ(entry.tensor.requires_grad(), entry.name.starts_with("fc.")) << entry.name;
}

TEST(Compose, APatternThatMatchesNothingFailsTheStart) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.train.model.mlp = {.hidden = {5}};
  spec.train.optimizer.groups = {{.pattern = "encoder.*", .frozen = true}};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  ASSERT_OK(model);
  const auto optimizer = BuildOptimizer(spec.train.optimizer, **model);
  EXPECT_THAT(optimizer, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("encoder.*")));
  EXPECT_EQ(FailureClassOf(optimizer.status()), kStartFailed);
}

TEST(Compose, TheLinearScalingRuleMultipliesTheBaseRateByTheBatch) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.train.optimizer.lr = 0;
  spec.train.optimizer.base_lr = 0.1;
  spec.train.optimizer.base_batch = 256;
  spec.train.batch_size = 1024;
  EXPECT_DOUBLE_EQ(BuildSchedule(spec.train, 10).peak, 0.4);
}

TEST(Compose, CountsStepsByEpochsOrTakesThem) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  spec.train.epochs = 1.5;
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  Recipe recipe = BuildRecipe(spec, BuildSampler(spec.train, **dataset), 2);
  EXPECT_EQ(recipe.total_steps, 5);
  EXPECT_EQ(recipe.schedule.total_steps, 5);
  EXPECT_EQ(recipe.schedule.name, ScheduleName::kConstant);
  EXPECT_EQ(recipe.schedule.peak, 0.5);
  EXPECT_EQ(recipe.evaluation_batch_size, 15);
  spec.train.accumulate = 4;
  EXPECT_EQ(BuildRecipe(spec, BuildSampler(spec.train, **dataset), 2).evaluation_batch_size, 4)
      << "as much as a training step takes at once";
  spec.train.accumulate = 1;
  spec.train.epochs = 0;
  spec.train.steps = 77;
  recipe = BuildRecipe(spec, BuildSampler(spec.train, **dataset), 2);
  EXPECT_EQ(recipe.total_steps, 77);
}

TEST(Compose, AGangWaitsForTheProgressTimeoutOrWithoutOneForYears) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.restart.progress_timeout = absl::Minutes(3);
  EXPECT_EQ(GangOptions(spec).timeout, absl::Minutes(3));
  spec.restart.progress_timeout = absl::ZeroDuration();
  EXPECT_GT(GangOptions(spec).timeout, absl::Hours(24 * 365));
}

TEST(Compose, MissingDigitsAreADataErrorThatNamesTheWayOut) {
  muster::testing::TempDir folder;
  trainer_spec::JobSpec spec;
  spec.train.data.digits = {.path = folder / "nowhere", .image_size = 16};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  EXPECT_THAT(dataset, StatusIs(absl::StatusCode::kNotFound, HasSubstr("scripts/fetch-digits")));
  EXPECT_EQ(FailureClassOf(dataset.status()), kDataError);
}

TEST(Compose, AModelThatDoesNotFitTheDataFailsTheStart) {
  trainer_spec::JobSpec spec = SyntheticSpec({64});
  spec.train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("choose `mlp`")));
  EXPECT_EQ(FailureClassOf(model.status()), kStartFailed);
}

}  // namespace
}  // namespace muster::worker
