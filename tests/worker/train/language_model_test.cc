#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/fs/file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/text/token_rows.h"
#include "worker/dist/gang.h"
#include "worker/models/gpt2.h"
#include "worker/models/layers/token_head.h"
#include "worker/optim/optimizer.h"
#include "worker/train/memory/allocation_trace.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/objective/objective.h"
#include "worker/train/step/evaluate.h"
#include "worker/train/step/step.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {
namespace {

using muster::testing::TempDir;

Batch Answers(const at::Tensor& targets) { return {at::Tensor(), targets, targets.size(0), 4}; }

TEST(LanguageModelObjective, IsTheMeanOverTokensAndCountsShares) {
  const auto objective = MakeLanguageModel(0);
  // Two rows of three tokens over a vocabulary of four; all logits equal but one.
  at::Tensor logits = at::zeros({2, 3, 4});
  logits[0][1][2] = 5.0;
  at::Tensor targets = at::zeros({2, 3}, at::kLong);
  targets[0][1] = 2;
  targets[1] = 3;
  const Batch batch = Answers(targets);
  const double even = std::log(4.0);
  const double sure = std::log(1 + 3 * std::exp(-5.0));
  const double mean = (5 * even + sure) / 6;
  EXPECT_NEAR(objective->TrainingLoss({logits}, batch).item<double>(), mean, 1e-6);
  // The sum over samples of their means.
  EXPECT_NEAR(objective->EvaluationLoss({logits}, batch).item<double>(), 2 * mean, 1e-6);
  // Ties go to token 0: the first row is right thrice in three, the second never.
  EXPECT_NEAR(objective->Correct({logits}, batch).item<double>(), 1.0, 1e-6);
}

TEST(LanguageModelObjective, ChoosesByLossAndTellsThePerplexity) {
  const auto objective = MakeLanguageModel(0);
  EXPECT_FALSE(objective->accuracy_leads());
  EXPECT_THAT(
      objective->Derived(std::log(7.0)),
      ::testing::ElementsAre(::testing::Pair("perplexity", ::testing::DoubleNear(7, 1e-9))));
  EXPECT_TRUE(MakeCrossEntropy(0)->accuracy_leads());
  EXPECT_TRUE(MakeCrossEntropy(0)->Derived(1).empty());
}

TEST(LanguageModelObjective, SmoothsLabelsInTrainingOnly) {
  const at::Tensor logits = at::linspace(-3, 3, 24).view({2, 3, 4});
  const Batch batch = Answers(at::zeros({2, 3}, at::kLong));
  const auto plain = MakeLanguageModel(0);
  const auto smooth = MakeLanguageModel(0.2);
  EXPECT_NE(plain->TrainingLoss({logits}, batch).item<double>(),
            smooth->TrainingLoss({logits}, batch).item<double>());
  EXPECT_EQ(plain->EvaluationLoss({logits}, batch).item<double>(),
            smooth->EvaluationLoss({logits}, batch).item<double>());
}

TEST(LanguageModelObjective, TakesAHeadThatIsApartAsItsLogits) {
  const at::Tensor hidden = at::rand({2, 3, 5}), table = at::rand({40, 5}).sub(0.5);
  const ModelOutput whole = {at::linear(hidden, table)};
  const ModelOutput apart = {.hidden = hidden, .table = table};
  at::Tensor targets = at::randint(40, {2, 3}, at::kLong);
  targets[0] = whole.values[0].argmax(1);  // some that are right
  const Batch batch = Answers(targets);
  const auto objective = MakeLanguageModel(0.1);
  ASSERT_TRUE(objective->takes_head_apart());
  const auto value = [](const at::Tensor& tensor) { return tensor.item<double>(); };
  const double trained = value(objective->TrainingLoss(whole, batch));
  const double evaluated = value(objective->EvaluationLoss(whole, batch));
  const double correct = value(objective->Correct(whole, batch));
  EXPECT_GE(correct, 1);
  EXPECT_NE(trained, evaluated / 2);
  for (const ModelOutput& output : {whole, apart}) {
    EXPECT_NEAR(value(objective->TrainingLoss(output, batch)), trained, 1e-6);
    EXPECT_NEAR(value(objective->EvaluationLoss(output, batch)), evaluated, 1e-6);
    EXPECT_EQ(value(objective->Correct(output, batch)), correct);
    const LossAndCorrect training =
        objective->TrainingLossAndCorrect(output, batch, /*with_correct=*/true);
    EXPECT_NEAR(value(training.loss), trained, 1e-6);
    EXPECT_EQ(value(training.correct), correct);
    EXPECT_FALSE(objective->TrainingLossAndCorrect(output, batch, false).correct.defined());
    const LossAndCorrect evaluation = objective->EvaluationLossAndCorrect(output, batch);
    EXPECT_NEAR(value(evaluation.loss), evaluated, 1e-6);
    EXPECT_EQ(value(evaluation.correct), correct);
  }
}

// The same task, which wants logits.
class AllLogitsAtOnce final : public Objective {
 public:
  bool accuracy_leads() const override { return task_->accuracy_leads(); }
  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return task_->TrainingLoss(output, batch);
  }
  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return task_->EvaluationLoss(output, batch);
  }
  at::Tensor Correct(const ModelOutput& output, const Batch& batch) const override {
    return task_->Correct(output, batch);
  }

 private:
  const std::unique_ptr<Objective> task_ = MakeLanguageModel(0);
};

struct TextRig {
  int64_t context = 8, vocabulary = kLargeVocabulary;
  int64_t rows = 40;  // of training; validation has a tenth
  uint64_t batch_size = 6;
};

// One rank and a small GPT-2 on numbers that go up by one, and begin anew after 100.
struct TextRank {
  TextRank(const TextRig& rig, const Objective& objective, Recipe own) : recipe(std::move(own)) {
    WriteNumbers("train.bin", rig.rows * rig.context + 1);
    WriteNumbers("val.bin", rig.rows / 10 * rig.context + 1);
    dataset = *ReadTokens(std::shared_ptr<FileSystem>(std::shared_ptr<FileSystem>(), &fs),
                          {folder.path(), rig.context, rig.vocabulary});
    loader.emplace(*dataset, Sampler(static_cast<uint64_t>(rig.rows), rig.batch_size, 1));
    model = *MakeGpt2({2, 2, 16, rig.context, rig.vocabulary, 0},
                      {.input_shape = {rig.context}, .classes = rig.vocabulary, .seed = 3});
    std::vector<OptimizedParameter> parameters;
    for (const ModelTensor& entry : model->parameters())
      parameters.push_back({.name = entry.name, .tensor = entry.tensor});
    // Without a norm of gradients: small differences of them stay small ones of weights.
    optimizer = MakeSgd({.momentum = 0}, parameters);
    recipe.schedule = {ScheduleName::kConstant, 0.5, 0, 0, 100};
    recipe.total_steps = 100;
    recipe.evaluation_batch_size = 3;
    strategy = gang->MakeStrategy(model->TrainedParameters(),
                                  {.control_size = Agreement::kControlNumbers});
    trainer.emplace(Trainer{recipe, *loader, *model, objective, *gang, at::kCPU, strategy.get(),
                            optimizer.get()});
  }

  void WriteNumbers(const char* name, int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) bytes.append({static_cast<char>(i % 100), '\0'});
    ASSERT_OK(WriteFileAtomically(fs, folder / name, bytes));
  }

  TempDir folder;
  FileSystem& fs = PosixFileSystem();
  Recipe recipe;
  std::unique_ptr<Dataset> dataset;
  std::optional<Loader> loader;
  std::unique_ptr<Gang> gang = Gang::OfOne();
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<Trainer> trainer;
};

struct TextRun {
  std::vector<StepResult> steps;
  Evaluation evaluation;
  std::vector<at::Tensor> weights;
};

TextRun TrainOnText(const Objective& objective, Precision precision, int64_t accumulate) {
  Recipe recipe;
  recipe.precision = precision;
  recipe.accumulate = accumulate;
  TextRank rank({}, objective, recipe);
  TrainStep step(*rank.trainer);
  StepTimer timer(at::kCPU);
  TextRun run;
  for (uint64_t number = 0; number < 3; ++number) {
    const absl::StatusOr<StepResult> done =
        step.Run(static_cast<int64_t>(number), *rank.loader->TrainBatch(number, 0, 1), {},
                 /*settle=*/true, timer);
    EXPECT_OK(done.status());
    if (done.ok()) run.steps.push_back(*done);
  }
  run.evaluation = *Evaluate(Split::kValidation, *rank.trainer);
  for (const ModelTensor& entry : rank.model->parameters())
    run.weights.push_back(entry.tensor.detach().clone());
  return run;
}

TEST(LanguageModelTraining, WithTheHeadApartIsThatWithAllLogitsAndHasTheSameBitsEachTime) {
  const auto apart = MakeLanguageModel(0);
  const AllLogitsAtOnce at_once;
  const double first_loss = std::log(static_cast<double>(kLargeVocabulary));
  const struct {
    Precision precision;
    int64_t accumulate;
    double tolerance;
  } kCases[] = {{Precision::kFp32, 1, 5e-6},
                {Precision::kFp32, 4, 5e-6},
                {Precision::kBf16, 4, 5e-3},
                {Precision::kFp16, 1, 5e-3}};
  for (const auto& [precision, accumulate, tolerance] : kCases) {
    const TextRun whole = TrainOnText(at_once, precision, accumulate);
    const TextRun chunked = TrainOnText(*apart, precision, accumulate);
    const TextRun again = TrainOnText(*apart, precision, accumulate);
    EXPECT_NEAR(chunked.steps.front().loss, first_loss, 0.05);
    EXPECT_LT(chunked.steps.back().loss, first_loss - 0.01);
    for (size_t i = 0; i < whole.steps.size(); ++i) {
      EXPECT_NEAR(chunked.steps[i].loss, whole.steps[i].loss, tolerance);
      EXPECT_NEAR(chunked.steps[i].grad_norm / whole.steps[i].grad_norm, 1, tolerance);
      EXPECT_NEAR(chunked.steps[i].accuracy, whole.steps[i].accuracy, tolerance);
      EXPECT_EQ(chunked.steps[i].loss, again.steps[i].loss);
    }
    EXPECT_EQ(chunked.evaluation.samples, 4);
    EXPECT_NEAR(chunked.evaluation.loss, whole.evaluation.loss, tolerance);
    EXPECT_NEAR(chunked.evaluation.correct, whole.evaluation.correct, tolerance);
    EXPECT_EQ(chunked.evaluation.loss, again.evaluation.loss);
    for (size_t i = 0; i < whole.weights.size(); ++i) {
      EXPECT_LT(chunked.weights[i].sub(whole.weights[i]).abs().max().item<double>(), tolerance);
      EXPECT_TRUE(chunked.weights[i].equal(again.weights[i])) << i;
    }
  }
}

// Of 12 rows of 512 tokens, three chunks of logits: the estimate measures 8 and 4 of them. And of
// rows so short that all that it measures is less than a chunk.
TEST(LanguageModelTraining, HoldsAChunkOfLogitsAndEstimatesSo) {
  for (const auto& [context, vocabulary] : {std::pair<int64_t, int64_t>{512, 16384}, {64, 8192}}) {
    const int64_t batch_size = 6144 / context;
    const int64_t logits_bytes = batch_size * context * vocabulary * 4;
    const auto objective = MakeLanguageModel(0);
    TextRank rank({.context = context,
                   .vocabulary = vocabulary,
                   .rows = 2 * batch_size,
                   .batch_size = static_cast<uint64_t>(batch_size)},
                  *objective, {});
    MemoryEstimate memory = CountMemory(*rank.trainer);
    ASSERT_OK(MeasureActivations(*rank.trainer, memory));
    const double estimate = static_cast<double>(memory.gradients + memory.activations);
    TrainStep step(*rank.trainer);
    StepTimer timer(at::kCPU);
    const Batch batch = *rank.loader->TrainBatch(0, 0, 1);
    ASSERT_OK(step.Run(0, batch, {}, true, timer).status());  // whatever is taken once only
    const AllocationTrace trace = TraceAllocations(
        [&] { ASSERT_OK(step.Run(1, batch, {}, /*settle=*/true, timer).status()); });
    const double peak = static_cast<double>(trace.PeakBytes());
    std::printf("logits of %.0f MB: estimate %.1f MB, peak %.1f MB\n",
                static_cast<double>(logits_bytes) / 1e6, estimate / 1e6, peak / 1e6);
    EXPECT_NEAR(estimate / peak, 1, 0.15);
    EXPECT_LT(peak, static_cast<double>(logits_bytes) * 0.8);
  }
}

}  // namespace
}  // namespace muster::worker
