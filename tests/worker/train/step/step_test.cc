// The training step by itself, on real ranks: micro-batches, the loss scale, clipping.
#include "worker/train/step/step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "tests/worker/train/dropout_model.h"
#include "worker/data/base/dataset.h"
#include "worker/models/mlp.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/evaluate.h"
#include "worker/train/step/micro_batch.h"

namespace muster::worker {
namespace {

using muster::testing::DropoutModel;
using muster::testing::RunGang;
using ::testing::Each;

constexpr int64_t kFeatures = 6;
constexpr int64_t kClasses = 3;

std::vector<OptimizedParameter> ParametersOf(const Model& model, double weight_decay = 0) {
  std::vector<OptimizedParameter> parameters;
  for (const ModelTensor& entry : model.parameters())
    parameters.push_back(
        {.name = entry.name, .tensor = entry.tensor, .weight_decay = weight_decay});
  return parameters;
}

std::unique_ptr<Strategy> StrategyOf(const Gang& gang, const Model& model) {
  return gang.MakeStrategy(model.TrainedParameters(), {.control_size = Agreement::kControlNumbers});
}

// What one rank of a step works with.
struct Rank {
  Rank(Gang& gang, const Recipe& recipe, std::unique_ptr<Model> own)
      : model(std::move(own)),
        optimizer(MakeAdamW({}, ParametersOf(*model, /*weight_decay=*/0.1))),
        objective(MakeCrossEntropy(0)),
        strategy(StrategyOf(gang, *model)),
        trainer{recipe, loader,   *model,         *objective,
                gang,   at::kCPU, strategy.get(), optimizer.get()},
        step(trainer) {}

  StepResult Run(int64_t number, const Batch& batch) {
    return *step.Run(number, batch, {}, /*settle=*/true, timer);
  }
  std::vector<at::Tensor> Weights() const {
    std::vector<at::Tensor> weights;
    for (const ModelTensor& entry : model->parameters())
      weights.push_back(entry.tensor.detach().clone());
    return weights;
  }

  std::unique_ptr<Dataset> dataset = *MakeSynthetic({103, {kFeatures}, kClasses, 1});
  Loader loader{*dataset, Sampler(103, 11, 1)};
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Strategy> strategy;
  Trainer trainer;
  TrainStep step;
  StepTimer timer{at::kCPU};
};

std::unique_ptr<Model> StepMlp() {
  return MakeMlp({{8}}, {.input_shape = {kFeatures}, .classes = kClasses, .seed = 3});
}

Recipe ConstantRecipe() {
  Recipe recipe;
  recipe.schedule = {ScheduleName::kConstant, 0.01, 0, 0, 100};
  recipe.total_steps = 100;
  return recipe;
}

// The rank's share of `global` samples that are the same for all ranks.
Batch ShareOf(int64_t global, const Collectives& gang) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  const at::Tensor inputs = at::rand({global, kFeatures}, generator);
  const at::Tensor targets = at::randint(kClasses, {global}, generator, at::kLong);
  const PlaceRange shard =
      EvenPart(static_cast<uint64_t>(global), static_cast<uint32_t>(gang.rank()),
               static_cast<uint32_t>(gang.world_size()));
  const int64_t begin = static_cast<int64_t>(shard.begin);
  const int64_t count = static_cast<int64_t>(shard.size());
  return {inputs.narrow(0, begin, count), targets.narrow(0, begin, count), count, global};
}

TEST(MicroBatch, PartsHoldEverySampleOnceAndEmptyOnesCountNothing) {
  for (const int64_t samples : {1, 3, 7, 8}) {
    const at::Tensor numbers = at::arange(samples, at::kFloat).view({samples, 1});
    const Batch batch = {numbers, numbers.view({samples}), samples, 100};
    std::vector<float> seen;
    for (int64_t index = 0; index < 4; ++index) {
      const Batch part = MicroBatch(batch, index, 4);
      ASSERT_GT(part.inputs.size(0), 0);
      EXPECT_EQ(part.inputs.size(0), part.targets.size(0));
      EXPECT_EQ(part.global_count, 100);
      for (int64_t i = 0; i < part.count; ++i) seen.push_back(part.inputs[i].item<float>());
    }
    ASSERT_EQ(static_cast<int64_t>(seen.size()), samples);
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<float>(i));
  }
  // A rank with nothing in a short last batch stays without in all parts.
  const Batch none = {at::zeros({2, 1}), at::zeros({2}), 0, 100};
  for (int64_t index = 0; index < 4; ++index) EXPECT_EQ(MicroBatch(none, index, 4).count, 0);
}

// 11 samples over two ranks and four micro-batches: no two shares are alike, and on the second
// number of samples a rank has fewer than parts.
TEST(TrainStep, AccumulatedGradientsAreThoseOfTheWholeBatch) {
  for (const int64_t global : {11, 5}) {
    const auto run = [&](int world, int64_t accumulate) {
      std::vector<at::Tensor> weights;
      double loss = 0, norm = 0, accuracy = 0;
      const auto errors = RunGang(world, [&](std::unique_ptr<Gang> gang) {
        Recipe recipe = ConstantRecipe();
        recipe.accumulate = accumulate;
        Rank rank(*gang, recipe, StepMlp());
        StepResult result;
        for (int64_t step = 0; step < 3; ++step) result = rank.Run(step, ShareOf(global, *gang));
        if (gang->rank() != 0) return;
        weights = rank.Weights();
        loss = result.loss, norm = result.grad_norm, accuracy = result.accuracy;
      });
      EXPECT_THAT(errors, Each(""));
      return std::tuple(weights, loss, norm, accuracy);
    };
    const auto [whole, loss, norm, accuracy] = run(1, 1);
    for (const int world : {1, 2}) {
      const auto [weights, loss4, norm4, accuracy4] = run(world, 4);
      EXPECT_NEAR(loss4, loss, 1e-6);
      EXPECT_NEAR(norm4, norm, 1e-6);
      EXPECT_NEAR(accuracy4, accuracy, 1e-6);
      for (size_t i = 0; i < whole.size(); ++i)
        EXPECT_LT(weights[i].sub(whole[i]).abs().max().item<double>(), 1e-6) << i;
    }
  }
}

TEST(TrainStep, EachMicroBatchHasItsOwnDropoutAndTheSameOneInAnotherRun) {
  std::vector<at::Tensor> dropped[2];
  for (auto& seen : dropped) {
    const auto gang = Gang::OfOne();
    Recipe recipe = ConstantRecipe();
    recipe.accumulate = 3;
    auto model = std::make_unique<DropoutModel>(
        ModelContext{.input_shape = {kFeatures}, .classes = kClasses, .seed = 3});
    DropoutModel& watched = *model;
    Rank rank(*gang, recipe, std::move(model));
    for (int64_t step = 4; step < 6; ++step) rank.Run(step, ShareOf(12, *gang));
    seen = watched.dropped;
  }
  ASSERT_EQ(dropped[0].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(dropped[0][i].equal(dropped[1][i])) << i;
    if (i > 0) {
      EXPECT_FALSE(dropped[0][i].equal(dropped[0][i - 1])) << i;
    }
  }
}

// Only rank 1 overflows; the reduced gradient tells rank 0.
TEST(TrainStep, AllRanksSkipAStepThatOverflowsOnOneAndHalveTheScale) {
  const auto errors = RunGang(2, [&](std::unique_ptr<Gang> gang) {
    Recipe recipe = ConstantRecipe();
    recipe.precision = Precision::kFp16;
    recipe.loss_scale = {.initial = 1024, .growth_interval = 2, .max_skips = 3};
    Rank rank(*gang, recipe, StepMlp());
    Batch good = ShareOf(8, *gang);
    Batch bad = good;
    if (gang->rank() == 1) bad.inputs = bad.inputs.add(1e6);  // above what fp16 holds
    const auto before = rank.Weights();

    const StepResult skipped = rank.Run(0, bad);
    EXPECT_TRUE(skipped.finite);
    EXPECT_TRUE(skipped.skipped);
    EXPECT_EQ(skipped.loss_scale, 512);
    EXPECT_EQ(skipped.skipped_steps, 1);
    const auto after = rank.Weights();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i])) << i;
    for (const OptimizerTensor& entry : rank.optimizer->state())
      EXPECT_EQ(entry.tensor.abs().max().item<double>(), 0) << entry.name;

    // Two steps without overflow double it again; the count in a row starts anew.
    EXPECT_FALSE(rank.Run(1, good).skipped);
    const StepResult grown = rank.Run(2, good);
    EXPECT_EQ(grown.loss_scale, 1024);
    EXPECT_EQ(grown.skips_in_row, 0);
    EXPECT_EQ(grown.skipped_steps, 1);
    EXPECT_FALSE(rank.Weights()[0].equal(before[0]));

    // Too many in a row end the run.
    EXPECT_TRUE(rank.Run(3, bad).finite);
    EXPECT_TRUE(rank.Run(4, bad).finite);
    const StepResult last = rank.Run(5, bad);
    EXPECT_FALSE(last.finite);
    EXPECT_TRUE(last.skipped);
    EXPECT_EQ(last.skips_in_row, 3);
  });
  EXPECT_THAT(errors, Each(""));
}

// The scale is a power of two, so it leaves no trace where nothing over- or underflows.
TEST(TrainStep, TheLossScaleIsTakenOutOfTheGradient) {
  std::vector<std::pair<double, at::Tensor>> results;
  for (const double scale : {1.0, 256.0}) {
    const auto gang = Gang::OfOne();
    Recipe recipe = ConstantRecipe();
    recipe.precision = Precision::kFp16;
    recipe.loss_scale.initial = scale;
    recipe.clip_norm = 0.1;  // sees the gradient without the scale
    Rank rank(*gang, recipe, StepMlp());
    const StepResult result = rank.Run(0, ShareOf(8, *gang));
    EXPECT_FALSE(result.skipped);
    results.emplace_back(result.grad_norm, rank.Weights()[0]);
  }
  EXPECT_NEAR(results[0].first, results[1].first, 1e-3);
  EXPECT_LT(results[0].second.sub(results[1].second).abs().max().item<double>(), 1e-3);
}

TEST(TrainStep, GoesOnWithTheScaleOfACheckpoint) {
  const auto gang = Gang::OfOne();
  Recipe recipe = ConstantRecipe();
  recipe.precision = Precision::kFp16;
  Rank rank(*gang, recipe, StepMlp());
  rank.step.RestoreLossScale({64, 1999, 2, 5});
  const StepResult result = rank.Run(0, ShareOf(8, *gang));
  EXPECT_EQ(result.loss_scale, 128) << "the 2000th step without overflow";
  const LossScaleState state = rank.step.loss_scale();
  EXPECT_EQ(state.scale, 128);
  EXPECT_EQ(state.growth_tracker, 0);
  EXPECT_EQ(state.skips_in_row, 0);
  EXPECT_EQ(state.skipped_steps, 5);
}

TEST(TrainStep, CutsEachNumberOfTheGradientToTheClipValue) {
  const auto gang = Gang::OfOne();
  Recipe recipe = ConstantRecipe();
  recipe.clip_value = 0.003;
  auto model = StepMlp();
  const auto sgd = MakeSgd({.momentum = 0}, ParametersOf(*model));
  const auto objective = MakeCrossEntropy(0);
  const auto dataset = *MakeSynthetic({103, {kFeatures}, kClasses, 1});
  const Loader loader(*dataset, Sampler(103, 11, 1));
  const auto strategy = StrategyOf(*gang, *model);
  TrainStep step({recipe, loader, *model, *objective, *gang, at::kCPU, strategy.get(), sgd.get()});
  StepTimer timer(at::kCPU);
  const at::Tensor before = model->parameters()[0].tensor.detach().clone();
  const StepResult result = *step.Run(0, ShareOf(8, *gang), {}, true, timer);
  EXPECT_GT(result.grad_norm, 0.1) << "before clipping";
  const at::Tensor change = model->parameters()[0].tensor.detach().sub(before).abs();
  EXPECT_NEAR(change.max().item<double>(), 0.01 * 0.003, 1e-7);
}

// Runs out of memory when it is told to.
class HungryModel final : public Model {
 public:
  HungryModel() { weight_ = AddParameter("weight", at::zeros({kClasses, kFeatures}), at::kCPU); }
  ModelOutput Forward(const at::Tensor& inputs) override {
    if (hungry) throw std::bad_alloc();
    return {at::linear(inputs, weight_)};
  }
  bool hungry = false;

 private:
  at::Tensor weight_;
};

TEST(TrainStep, FailsByItselfWithItsClassAndTheNextOneRuns) {
  const auto gang = Gang::OfOne();
  auto model = std::make_unique<HungryModel>();
  bool& hungry = model->hungry;
  Recipe recipe = ConstantRecipe();
  recipe.evaluation_batch_size = 3;
  Rank rank(*gang, recipe, std::move(model));
  const Batch batch = ShareOf(8, *gang);
  const auto run = [&](int64_t step) {
    return rank.step.Run(step, batch, {}, /*settle=*/true, rank.timer).status();
  };
  ASSERT_OK(run(0));
  const at::Tensor before = rank.Weights()[0];
  hungry = true;
  EXPECT_EQ(FailureClassOf(run(1)), kOutOfMemory);
  EXPECT_EQ(FailureClassOf(Evaluate(Split::kTest, rank.trainer).status()), kOutOfMemory);
  EXPECT_TRUE(rank.model->training());
  EXPECT_TRUE(rank.Weights()[0].equal(before));
  hungry = false;
  EXPECT_OK(run(1));
  EXPECT_FALSE(rank.Weights()[0].equal(before));
}

// Keeps what it was told of its samples, and what these were.
class ListeningModel final : public Model {
 public:
  ListeningModel() { weight_ = AddParameter("weight", at::zeros({kClasses, kFeatures}), at::kCPU); }

  ModelOutput Forward(const at::Tensor& inputs) override {
    const std::vector<int64_t>& told = samples().ids;
    EXPECT_EQ(static_cast<int64_t>(told.size()), inputs.size(0));
    ids.insert(ids.end(), told.begin(), told.end());
    for (int64_t i = 0; i < inputs.size(0); ++i) rows.push_back(inputs[i].clone());
    return {at::linear(inputs, weight_)};
  }

  std::vector<int64_t> ids;
  std::vector<at::Tensor> rows;

 private:
  at::Tensor weight_;
};

// Each row is the sample of the id that was told for it.
void ExpectRowsOfTheirIds(const ListeningModel& model, const Dataset& dataset, Split split) {
  ASSERT_EQ(model.ids.size(), model.rows.size());
  for (size_t i = 0; i < model.ids.size(); ++i) {
    EXPECT_TRUE(model.rows[i].equal(dataset.Range(split, model.ids[i], 1).inputs[0]))
        << "sample " << model.ids[i];
  }
}

// A masked autoencoder draws by them what it hides of a sample.
TEST(TrainStep, AModelIsToldTheIdOfEachSample) {
  const auto dataset = *MakeSynthetic({103, {kFeatures}, kClasses, 1});
  const Sampler sampler(103, 11, 1);
  const Loader loader(*dataset, sampler);
  for (const int world : {1, 2}) {
    for (const int64_t accumulate : {1, 3}) {
      std::vector<std::vector<int64_t>> evaluated(world);
      const auto errors = RunGang(world, [&](std::unique_ptr<Gang> gang) {
        Recipe recipe = ConstantRecipe();
        recipe.accumulate = accumulate;
        recipe.evaluation_batch_size = 3;
        auto model = std::make_unique<ListeningModel>();
        ListeningModel& heard = *model;
        Rank rank(*gang, recipe, std::move(model));
        const uint32_t number = static_cast<uint32_t>(gang->rank());
        rank.Run(0, *loader.TrainBatch(0, number, static_cast<uint32_t>(world)));
        EXPECT_EQ(heard.ids, sampler.Ids(0, number, static_cast<uint32_t>(world)));
        ExpectRowsOfTheirIds(heard, *dataset, Split::kTrain);

        heard.ids.clear();
        heard.rows.clear();
        EXPECT_OK(Evaluate(Split::kTest, rank.trainer).status());
        ExpectRowsOfTheirIds(heard, *dataset, Split::kTest);
        evaluated[number] = heard.ids;
      });
      EXPECT_THAT(errors, Each(""));
      std::vector<int64_t> all, whole(static_cast<size_t>(dataset->size(Split::kTest)));
      std::iota(whole.begin(), whole.end(), 0);
      for (const auto& ids : evaluated) all.insert(all.end(), ids.begin(), ids.end());
      EXPECT_EQ(all, whole);
    }
  }
}

}  // namespace
}  // namespace muster::worker
