#include "worker/train/recipe/prune.h"

#include <ATen/core/grad_mode.h>

#include <functional>
#include <map>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/training_run.h"
#include "worker/models/mlp.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectSameBits;
using muster::testing::ExpectSameBitsOnAllRanks;
using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StatusIs;
using muster::testing::StopAfter;
using muster::testing::TempDir;
using muster::testing::TrainingRun;
using ::testing::HasSubstr;

std::unique_ptr<Model> SmallMlp() {
  return MakeMlp({{16, 8}}, {.input_shape = {12}, .classes = 4, .seed = 3});
}

int64_t Zeros(const at::Tensor& tensor) {
  return tensor.numel() - tensor.detach().ne(0).sum().item<int64_t>();
}

std::map<std::string, at::Tensor> ByName(const std::vector<ModelTensor>& tensors) {
  std::map<std::string, at::Tensor> named;
  for (const ModelTensor& entry : tensors) named[entry.name] = entry.tensor;
  return named;
}

TEST(PruneSchedule, IsZhuAndGuptas) {
  const PruneConfig config = {
      .sparsity = 0.8, .begin_step = 10, .end_step = 110, .every_steps = 30};
  EXPECT_EQ(SparsityAfter(config, 9), 0);
  EXPECT_EQ(SparsityAfter(config, 10), 0);
  EXPECT_DOUBLE_EQ(SparsityAfter(config, 60), 0.8 * (1 - 0.125));
  EXPECT_EQ(SparsityAfter(config, 110), 0.8);
  EXPECT_EQ(SparsityAfter(config, 1000), 0.8);
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < 200; ++step) {
    if (PrunesAfter(config, step)) steps.push_back(step);
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(10, 40, 70, 100, 110));
  EXPECT_EQ(SparsityAfter({.sparsity = 0.5}, 0), 0.5) << "all at once, before the first step";
  EXPECT_TRUE(PrunesAfter({.sparsity = 0.5}, 0));
}

TEST(PruneSchedule, RoundsHalvesToEvenAsPythonDoes) {
  EXPECT_EQ(PrunedOf(0.5, 5), 2);
  EXPECT_EQ(PrunedOf(0.5, 7), 4);
  EXPECT_EQ(PrunedOf(0.8, 12), 10);
}

TEST(Pruner, TakesExactlyTheSmallestOfEachTensorAndNoBias) {
  const auto model = SmallMlp();
  const auto pruner = Pruner::Create({.sparsity = 0.75}, *model, nullptr);
  ASSERT_OK(pruner);
  const auto before = ByName(SmallMlp()->parameters());
  (*pruner)->AfterStep(0);
  const auto masks = ByName((*pruner)->state());
  EXPECT_EQ(masks.size(), 3u);
  for (const auto& [name, weight] : ByName(model->parameters())) {
    const at::Tensor old = before.at(name).detach();
    if (weight.dim() < 2) {
      EXPECT_TRUE(weight.equal(old)) << name;
      continue;
    }
    EXPECT_EQ(Zeros(weight), PrunedOf(0.75, weight.numel())) << name;
    const at::Tensor& mask = masks.at("mask." + name);
    EXPECT_TRUE(weight.detach().equal(old.mul(mask))) << name;
    const at::Tensor largest_gone = old.abs().masked_fill(mask, 0).max();
    const at::Tensor smallest_left = old.abs().masked_fill(mask.logical_not(), 9).min();
    EXPECT_LE(largest_gone.item<float>(), smallest_left.item<float>()) << name;
  }
  EXPECT_DOUBLE_EQ((*pruner)->Sparsity(), 0.75);
}

TEST(Pruner, GloballyTakesTheSmallestWhereverTheyAre) {
  const auto model = SmallMlp();
  {
    const at::NoGradGuard no_grad;
    at::Tensor(model->parameters()[0].tensor).mul_(1000);
  }
  const auto pruner = Pruner::Create({.sparsity = 0.25, .global = true}, *model, nullptr);
  ASSERT_OK(pruner);
  (*pruner)->AfterStep(0);
  const auto weights = ByName(model->parameters());
  const int64_t all = 16 * 12 + 8 * 16 + 4 * 8;
  EXPECT_EQ(Zeros(weights.at("0.weight")), 0);
  EXPECT_EQ(Zeros(weights.at("2.weight")) + Zeros(weights.at("4.weight")), PrunedOf(0.25, all));
}

TEST(Pruner, WhatIsPrunedStaysSoHoweverItIsMoved) {
  const auto model = SmallMlp();
  const auto pruner = Pruner::Create({.sparsity = 0.5, .end_step = 10}, *model, nullptr);
  ASSERT_OK(pruner);
  std::map<std::string, at::Tensor> before;
  for (int64_t step = 0; step <= 12; ++step) {
    (*pruner)->AfterStep(step);
    for (const auto& [name, mask] : ByName((*pruner)->state())) {
      if (before.contains(name)) {
        EXPECT_FALSE(mask.logical_and(before[name].logical_not()).any().item<bool>())
            << name << " came back to life at step " << step;
      }
      before[name] = mask.clone();
    }
    const at::NoGradGuard no_grad;
    for (const auto& [name, weight] : ByName(model->parameters())) at::Tensor(weight).add_(0.3);
  }
  (*pruner)->AfterStep(13);
  EXPECT_DOUBLE_EQ((*pruner)->Sparsity(), 0.5);
}

TEST(Pruner, APatternThatMatchesNothingNamesTheNearest) {
  EXPECT_THAT(Pruner::Create({.sparsity = 0.5, .pattern = "2.wieght"}, *SmallMlp(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("`2.weight`")));
  EXPECT_THAT(Pruner::Create({.sparsity = 0.5, .pattern = "*.bias"}, *SmallMlp(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of two axes")));
}

TrainingRun PrunedRun(const std::string& root) {
  TrainingRun run;
  run.world_size = 2;
  run.root = root;
  run.ema = EmaConfig{.decay = 0.8, .every_steps = 2, .warmup = true};
  run.prune = PruneConfig{.sparsity = 0.6, .begin_step = 2, .end_step = 9, .every_steps = 3};
  run.recipe.total_steps = 12;
  run.recipe.best_from_step = 9;
  run.recipe.schedule = {ScheduleName::kConstant, 0.01, 0, 0, 12};
  run.recipe.report_every_steps = 1;
  run.recipe.evaluation_batch_size = 3;
  run.recipe.validate_every_steps = 1;
  run.recipe.save_every_steps = 1;
  run.recipe.commit_timeout = absl::Minutes(1);
  return run;
}

class PrunedRunTest : public ::testing::TestWithParam<Transport> {};

// Over both: the masks, which are bool, travel from rank 0 to the others.
INSTANTIATE_TEST_SUITE_P(Transports, PrunedRunTest,
                         ::testing::Values(Transport::kSharedMemory, Transport::kGloo));

TEST_P(PrunedRunTest, ResumedEqualsNeverHavingStoppedAndRanksAgree) {
  TempDir whole_root, broken_root;
  TrainingRun run = PrunedRun(whole_root.path());
  run.transport = GetParam();
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  ExpectSameBitsOnAllRanks(whole);
  const auto& weights = whole.ranks[0].weights;
  int64_t masks = 0;
  for (const auto& [name, tensor] : weights) {
    if (name.rfind(kMaskPrefix, 0) != 0) continue;
    ++masks;
    const std::string pruned = name.substr(5);
    EXPECT_EQ(Zeros(tensor), PrunedOf(0.6, tensor.numel())) << name;
    for (const std::string& of : {pruned, kEmaPrefix + pruned})
      EXPECT_FALSE(weights.at(of).masked_fill(tensor, 0).any().item<bool>()) << of;
  }
  EXPECT_GE(masks, 2);
  EXPECT_NEAR(whole.ranks[0].result->results.at("sparsity"), 0.6, 0.01);
  EXPECT_GE(whole.ranks[0].result->results.at("best_step"), 9) << "pruned less than was asked for";

  run.root = broken_root.path();
  ASSERT_NO_FATAL_FAILURE(StopAfter(5, run));
  ASSERT_LT(run.candidates[0].step, 9) << "the masks are still to grow";
  const RunOutcome second = RunTraining(run);
  ASSERT_OK(second.ranks[0].result);
  ExpectSameBits(whole, second);
  ExpectSameBitsOnAllRanks(second);
}

}  // namespace
}  // namespace muster::worker
