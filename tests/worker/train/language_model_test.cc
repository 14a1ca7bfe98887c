#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "worker/train/objective/objective.h"

namespace muster::worker {
namespace {

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

}  // namespace
}  // namespace muster::worker
