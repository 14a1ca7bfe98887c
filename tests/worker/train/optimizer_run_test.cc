// Every optimizer and schedule, averages and frozen parameters through the whole loop: resumed
// equals never stopped.
#include <ATen/core/Tensor.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/training_run.h"
#include "worker/train/loop.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectSameBits;
using muster::testing::ExpectSameBitsOnAllRanks;
using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StopAfter;
using muster::testing::TempDir;
using muster::testing::TrainingRun;

using Parameters = std::vector<OptimizedParameter>;

// Two groups, so that each optimizer has more than one set to update.
Parameters Grouped(Parameters parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].lr_scale = i < 2 ? 0.5 : 1;
    parameters[i].weight_decay = i % 2 == 0 ? 0.05 : 0;
  }
  return parameters;
}

struct RunVariant {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(const Parameters&)> make;
  ScheduleName schedule;
  bool ema;
};

TrainingRun RunOfVariant(const RunVariant& variant, const std::string& root) {
  TrainingRun run;
  run.world_size = 2;
  run.root = root;
  run.make_optimizer = [&variant](const Parameters& p) { return variant.make(Grouped(p)); };
  if (variant.ema) run.ema = EmaConfig{.decay = 0.8, .every_steps = 2, .warmup = true};
  run.recipe.total_steps = 12;
  run.recipe.schedule.name = variant.schedule;
  run.recipe.schedule.peak = 0.02;
  run.recipe.schedule.total_steps = 12;
  run.recipe.schedule.milestones = {4, 8};
  run.recipe.schedule.gamma = 0.5;
  run.recipe.schedule.power = 2;
  run.recipe.schedule.start_fraction = 0.1;
  run.recipe.schedule.warmup_steps = variant.schedule == ScheduleName::kOneCycle ? 0 : 3;
  run.recipe.evaluation_batch_size = 3;
  run.recipe.save_every_steps = 4;
  run.recipe.save_every_epochs = 0;
  run.recipe.commit_timeout = absl::Minutes(1);
  return run;
}

class OptimizerRun : public ::testing::TestWithParam<RunVariant> {};

TEST_P(OptimizerRun, ResumedEqualsNeverHavingStoppedBitForBit) {
  TempDir whole_root, broken_root;
  TrainingRun run = RunOfVariant(GetParam(), whole_root.path());
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  ExpectSameBitsOnAllRanks(whole);

  run.root = broken_root.path();
  ASSERT_NO_FATAL_FAILURE(StopAfter(4, run));
  const RunOutcome second = RunTraining(run);
  ASSERT_OK(second.ranks[0].result);
  ExpectSameBits(whole, second);
  EXPECT_EQ(whole.ranks[0].weights.contains("ema.0.weight"), GetParam().ema);
  EXPECT_EQ(whole.ranks[0].result->results, second.ranks[0].result->results);
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerRun,
    ::testing::Values(
        RunVariant{"sgd_step", [](const Parameters& p) { return MakeSgd({}, p); },
                   ScheduleName::kStep, true},
        RunVariant{"adam_polynomial", [](const Parameters& p) { return MakeAdam({}, p); },
                   ScheduleName::kPolynomial, false},
        RunVariant{"adamw_cosine", [](const Parameters& p) { return MakeAdamW({}, p); },
                   ScheduleName::kCosine, true},
        RunVariant{"lars_one_cycle", [](const Parameters& p) { return MakeLars({}, p); },
                   ScheduleName::kOneCycle, false},
        RunVariant{"lamb_constant", [](const Parameters& p) { return MakeLamb({}, p); },
                   ScheduleName::kConstant, true},
        RunVariant{"lion_cosine", [](const Parameters& p) { return MakeLion({}, p); },
                   ScheduleName::kCosine, false}),
    [](const auto& info) { return info.param.name; });

TEST(EmaRun, ValidationAndTestJudgeTheAverages) {
  TempDir root, other_root;
  const RunVariant variant = {"", [](const Parameters& p) { return MakeAdamW({}, p); },
                              ScheduleName::kConstant, true};
  TrainingRun run = RunOfVariant(variant, root.path());
  // An average that stays at the first weights is judged the same, however the weights move.
  run.ema = EmaConfig{.decay = 0.999999, .every_steps = 100, .warmup = false};
  const RunOutcome still = RunTraining(run);
  ASSERT_OK(still.ranks[0].result);
  const auto& losses = still.ranks[0].host.metrics.at("validation_loss");
  ASSERT_GE(losses.size(), 2u);
  for (const auto& [step, loss] : losses) EXPECT_EQ(loss, losses.begin()->second) << step;

  run.root = other_root.path();
  run.ema.reset();
  const RunOutcome moving = RunTraining(run);
  ASSERT_OK(moving.ranks[0].result);
  const auto& others = moving.ranks[0].host.metrics.at("validation_loss");
  EXPECT_NE(others.begin()->second, others.rbegin()->second);
  EXPECT_NE(still.ranks[0].result->results.at("test_loss"),
            moving.ranks[0].result->results.at("test_loss"));
}

TEST(FrozenRun, NothingOfAFrozenPartChangesAlsoOnTwoRanks) {
  TempDir root;
  const RunVariant variant = {"", [](const Parameters& p) { return MakeAdamW({}, p); },
                              ScheduleName::kConstant, false};
  TrainingRun run = RunOfVariant(variant, root.path());
  run.resnet = true;
  std::map<std::string, at::Tensor> start;
  const RunOutcome outcome = RunTraining(run, [&start](Model& model) {
    static Mutex mutex;
    MutexLock lock(mutex);
    for (const ModelTensor& entry : model.parameters()) {
      const bool head = entry.name.starts_with("fc.") || entry.name.starts_with("layer4.");
      if (!head) entry.tensor.set_requires_grad(false);
    }
    for (const ModelTensor& entry : model.state())
      start[entry.name] = entry.tensor.detach().clone();
  });
  ASSERT_OK(outcome.ranks[0].result);
  for (const auto& [name, tensor] : start) {
    const bool trained = name.starts_with("fc.") || name.starts_with("layer4.");
    EXPECT_EQ(tensor.equal(outcome.ranks[0].weights.at(name)), !trained) << name;
    EXPECT_TRUE(outcome.ranks[0].weights.at(name).equal(outcome.ranks[1].weights.at(name))) << name;
  }
}

}  // namespace
}  // namespace muster::worker
