#include "worker/optim/optimizer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace muster::worker {
namespace {

const std::vector<double> kStart = {0.5, -1.25, 2.0};

double Gradient(double weight, int step) { return 0.3 * weight + 0.1 * (step + 1); }

at::Tensor StartTensor() { return at::tensor({0.5, -1.25, 2.0}, at::kFloat).requires_grad_(); }

// Runs steps [first, last) of the optimizer on one parameter whose gradient follows Gradient.
void RunSteps(Optimizer& optimizer, const at::Tensor& parameter, int first, int last,
              double learning_rate) {
  for (int step = first; step < last; ++step) {
    at::Tensor gradient = parameter.detach().mul(0.3).add(0.1 * (step + 1));
    optimizer.Step({gradient}, learning_rate, {});
  }
}

void ExpectClose(const at::Tensor& actual, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.detach()[static_cast<int64_t>(i)].item<double>(), expected[i], 1e-5) << i;
  }
}

TEST(AdamW, FollowsThePapersUpdate) {
  const AdamConfig config = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  at::Tensor parameter = StartTensor();
  auto optimizer = MakeAdamW(config, {{.name = "w", .tensor = parameter, .weight_decay = 0.1}});
  RunSteps(*optimizer, parameter, 0, 5, 0.05);

  std::vector<double> expected = kStart;
  for (double& w : expected) {
    double m = 0, v = 0;
    for (int step = 0; step < 5; ++step) {
      const double g = Gradient(w, step);
      m = 0.9 * m + 0.1 * g;
      v = 0.99 * v + 0.01 * g * g;
      w *= 1 - 0.05 * 0.1;
      w -= 0.05 * (m / (1 - std::pow(0.9, step + 1))) /
           (std::sqrt(v / (1 - std::pow(0.99, step + 1))) + 1e-8);
    }
  }
  ExpectClose(parameter, expected);
}

TEST(Sgd, FollowsMomentumWithWeightDecayAndNesterov) {
  for (const bool nesterov : {false, true}) {
    const SgdConfig config = {.momentum = 0.9, .nesterov = nesterov};
    at::Tensor parameter = StartTensor();
    auto optimizer = MakeSgd(config, {{.name = "w", .tensor = parameter, .weight_decay = 0.02}});
    RunSteps(*optimizer, parameter, 0, 4, 0.1);

    std::vector<double> expected = kStart;
    for (double& w : expected) {
      double momentum = 0;
      for (int step = 0; step < 4; ++step) {
        const double g = Gradient(w, step) + 0.02 * w;
        momentum = 0.9 * momentum + g;
        w -= 0.1 * (nesterov ? g + 0.9 * momentum : momentum);
      }
    }
    ExpectClose(parameter, expected);
  }
}

TEST(Sgd, WithoutMomentumKeepsNoState) {
  at::Tensor parameter = StartTensor();
  auto optimizer = MakeSgd({.momentum = 0}, {{"w", parameter}});
  EXPECT_TRUE(optimizer->state().empty());
  optimizer->Step({at::tensor({1.0, 1.0, 1.0}, at::kFloat)}, 0.5, {});
  ExpectClose(parameter, {0.0, -1.75, 1.5});
}

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(const std::vector<OptimizedParameter>&)> make;
};

class EveryOptimizer : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryOptimizer, CopiedStateContinuesBitForBit) {
  at::Tensor whole = StartTensor();
  auto undisturbed = GetParam().make({{"w", whole}});
  RunSteps(*undisturbed, whole, 0, 10, 0.01);

  at::Tensor first = StartTensor();
  auto before = GetParam().make({{"w", first}});
  RunSteps(*before, first, 0, 6, 0.01);
  at::Tensor second = first.detach().clone().requires_grad_();
  auto after = GetParam().make({{"w", second}});
  ASSERT_EQ(after->state().size(), before->state().size());
  for (size_t i = 0; i < after->state().size(); ++i) {
    EXPECT_EQ(after->state()[i].name, before->state()[i].name);
    at::Tensor(after->state()[i].tensor).copy_(before->state()[i].tensor);
  }
  RunSteps(*after, second, 6, 10, 0.01);
  EXPECT_TRUE(whole.equal(second));
  EXPECT_FALSE(whole.equal(StartTensor()));
}

TEST_P(EveryOptimizer, FoundInfLeavesEverythingAsItWas) {
  at::Tensor parameter = StartTensor();
  auto optimizer = GetParam().make({{.name = "w", .tensor = parameter, .weight_decay = 0.1}});
  optimizer->Step({at::tensor({1.0, 2.0, 3.0}, at::kFloat)}, 0.1, {});
  const at::Tensor weights = parameter.detach().clone();
  std::vector<at::Tensor> state;
  for (const OptimizerTensor& entry : optimizer->state()) state.push_back(entry.tensor.clone());
  const at::Tensor broken =
      at::tensor({1.0, std::numeric_limits<double>::infinity(), std::nan("")}, at::kFloat);
  optimizer->Step({broken}, 0.1, at::full({}, 1.0, at::kFloat));
  EXPECT_TRUE(weights.equal(parameter.detach()));
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_TRUE(state[i].equal(optimizer->state()[i].tensor)) << optimizer->state()[i].name;
  }
}

TEST_P(EveryOptimizer, FoundInfOfZeroChangesNothingOfTheStep) {
  at::Tensor with = StartTensor(), without = StartTensor();
  auto first = GetParam().make({{.name = "w", .tensor = with, .weight_decay = 0.1}});
  auto second = GetParam().make({{.name = "w", .tensor = without, .weight_decay = 0.1}});
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradient = at::tensor({1.0, 2.0, 3.0 * step}, at::kFloat);
    first->Step({gradient}, 0.1, at::full({}, 0.0, at::kFloat));
    second->Step({gradient}, 0.1, {});
  }
  EXPECT_TRUE(with.equal(without));
}

// Two groups in one optimizer are two optimizers with settings of their own.
TEST_P(EveryOptimizer, EachGroupHasItsOwnRateAndDecay) {
  at::Tensor a = StartTensor(), b = StartTensor(), alone_a = StartTensor(), alone_b = StartTensor();
  auto both = GetParam().make({{.name = "a", .tensor = a, .lr_scale = 0.5, .weight_decay = 0.1},
                               {.name = "b", .tensor = b, .lr_scale = 1, .weight_decay = 0}});
  auto first = GetParam().make({{.name = "a", .tensor = alone_a, .weight_decay = 0.1}});
  auto second = GetParam().make({{.name = "b", .tensor = alone_b}});
  for (int step = 0; step < 4; ++step) {
    const at::Tensor of_a = at::tensor({1.0, 2.0, 3.0 * step}, at::kFloat);
    const at::Tensor of_b = at::tensor({-1.0, 0.5, 1.0 * step}, at::kFloat);
    both->Step({of_a, of_b}, 0.1, {});
    first->Step({of_a}, 0.05, {});
    second->Step({of_b}, 0.1, {});
  }
  EXPECT_TRUE(a.equal(alone_a));
  EXPECT_TRUE(b.equal(alone_b));
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryOptimizer,
    ::testing::Values(Kind{"sgd", [](const auto& p) { return MakeSgd({.nesterov = true}, p); }},
                      Kind{"adam", [](const auto& p) { return MakeAdam({}, p); }},
                      Kind{"adamw", [](const auto& p) { return MakeAdamW({}, p); }},
                      Kind{"lars", [](const auto& p) { return MakeLars({}, p); }},
                      Kind{"lamb", [](const auto& p) { return MakeLamb({}, p); }},
                      Kind{"lion", [](const auto& p) { return MakeLion({}, p); }}),
    [](const auto& info) { return info.param.name; });

TEST(TrustRatio, LeavesAlonePlainParametersAndThoseThatAreZero) {
  at::Tensor zero = at::zeros({2}, at::kFloat), plain = StartTensor();
  auto lars = MakeLars(
      {.momentum = 0, .trust_coefficient = 0.001},
      {{.name = "zero", .tensor = zero}, {.name = "plain", .tensor = plain, .adapt = false}});
  lars->Step({at::tensor({1.0, -2.0}, at::kFloat), at::tensor({1.0, 1.0, 1.0}, at::kFloat)}, 0.5,
             {});
  ExpectClose(zero, {-0.5, 1.0});
  ExpectClose(plain, {0.0, -1.75, 1.5});
}

}  // namespace
}  // namespace muster::worker
