#include "worker/train/objective/objective.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>

#include <cmath>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

// Two samples of three classes; the second is wrong.
ModelOutput Logits() { return {at::tensor({2.0f, 0.5f, -1.0f, 0.25f, 1.5f, 0.0f}).view({2, 3})}; }
Batch Hard() { return {.targets = at::tensor({int64_t{0}, int64_t{2}})}; }
Batch Soft() { return {.targets = at::tensor({0.7f, 0.3f, 0.0f, 0.0f, 0.5f, 0.5f}).view({2, 3})}; }

double Value(const at::Tensor& tensor) { return tensor.item<double>(); }

TEST(Objective, CrossEntropyTakesSoftTargetsAndSmoothsThemAsHardOnes) {
  const double smoothing = 0.12;
  const auto objective = MakeCrossEntropy(smoothing);
  const at::Tensor log_p = at::log_softmax(Logits().values, 1);
  const at::Tensor smooth = Soft().targets.mul(1 - smoothing).add(smoothing / 3);
  EXPECT_NEAR(Value(objective->TrainingLoss(Logits(), Soft())), -Value(log_p.mul(smooth).sum()) / 2,
              1e-6);
  // Hard targets are the soft ones with all in one class.
  const Batch one_hot = {.targets = at::tensor({1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f}).view({2, 3})};
  for (const auto& each : {MakeCrossEntropy(smoothing), MakeBinaryCrossEntropy(smoothing)}) {
    EXPECT_NEAR(Value(each->TrainingLoss(Logits(), one_hot)),
                Value(each->TrainingLoss(Logits(), Hard())), 1e-6);
    EXPECT_NEAR(Value(each->EvaluationLoss(Logits(), one_hot)),
                Value(each->EvaluationLoss(Logits(), Hard())), 1e-6);
  }
}

// timm's BinaryCrossEntropy: off = s / C, on = 1 - s + off, then the mean over all numbers.
TEST(Objective, BinaryCrossEntropyIsThatOfTimm) {
  const double smoothing = 0.3, off = smoothing / 3, on = 1 - smoothing + off;
  const at::Tensor p = at::sigmoid(Logits().values).to(at::kDouble);
  double sum = 0, plain = 0;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t c = 0; c < 3; ++c) {
      const bool is = c == Hard().targets[b].item<int64_t>();
      const double yes = std::log(p[b][c].item<double>());
      const double no = std::log(1 - p[b][c].item<double>());
      sum -= (is ? on : off) * yes + (1 - (is ? on : off)) * no;
      plain -= is ? yes : no;
    }
  }
  const auto objective = MakeBinaryCrossEntropy(smoothing);
  EXPECT_NEAR(Value(objective->TrainingLoss(Logits(), Hard())), sum / 6, 1e-6);
  // Evaluation: without smoothing, the sum over samples.
  EXPECT_NEAR(Value(objective->EvaluationLoss(Logits(), Hard())), plain / 3, 1e-6);
}

TEST(Objective, MeanSquaredErrorIsTheDistanceFromOneHotOrFromTheTargetsThemselves) {
  const auto objective = MakeMeanSquaredError();
  const double hard = 1 + 0.25 + 1 + 0.0625 + 2.25 + 1;
  EXPECT_NEAR(Value(objective->TrainingLoss(Logits(), Hard())), hard / 6, 1e-6);
  EXPECT_NEAR(Value(objective->EvaluationLoss(Logits(), Hard())), hard / 3, 1e-6);
  const Batch own = {.targets = Logits().values.add(2)};
  EXPECT_NEAR(Value(objective->TrainingLoss(Logits(), own)), 4, 1e-6);
}

TEST(Objective, HalfPrecisionOutputsCountInFull) {
  const ModelOutput half = {Logits().values.to(at::kBFloat16)};
  EXPECT_EQ(MakeBinaryCrossEntropy(0)->TrainingLoss(half, Hard()).scalar_type(), at::kFloat);
  EXPECT_EQ(MakeMeanSquaredError()->TrainingLoss(half, Soft()).scalar_type(), at::kFloat);
}

TEST(Objective, CountsTheFirstAndTheFirstFive) {
  const auto objective = MakeCrossEntropy(0);
  EXPECT_EQ(Value(objective->Correct(Logits(), Hard())), 1);
  EXPECT_EQ(Value(objective->Correct(Logits(), Soft())), 2) << "by their main class";
  EXPECT_FALSE(objective->CorrectInTopFive(Logits(), Hard()).defined()) << "three classes";
  const ModelOutput seven = {at::tensor({7.f, 6.f, 5.f, 4.f, 3.f, 2.f, 1.f}).repeat({3, 1})};
  const Batch batch = {.targets = at::tensor({int64_t{0}, int64_t{4}, int64_t{5}})};
  EXPECT_EQ(Value(objective->Correct(seven, batch)), 1);
  EXPECT_EQ(Value(objective->CorrectInTopFive(seven, batch)), 2);
}

}  // namespace
}  // namespace muster::worker
