#include "worker/optim/optimizer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

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
  const AdamWConfig config = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};
  at::Tensor parameter = StartTensor();
  auto optimizer = MakeAdamW(config, {{"w", parameter}});
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
    const SgdConfig config = {.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.02};
    at::Tensor parameter = StartTensor();
    auto optimizer = MakeSgd(config, {{"w", parameter}});
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

TEST(Optimizer, CopiedStateContinuesBitForBit) {
  for (const bool adamw : {false, true}) {
    const auto make = [&](const at::Tensor& parameter) {
      return adamw ? MakeAdamW({}, {{"w", parameter}}) : MakeSgd({}, {{"w", parameter}});
    };
    at::Tensor whole = StartTensor();
    auto undisturbed = make(whole);
    RunSteps(*undisturbed, whole, 0, 10, 0.01);

    at::Tensor first = StartTensor();
    auto before = make(first);
    RunSteps(*before, first, 0, 6, 0.01);
    at::Tensor second = first.detach().clone().requires_grad_();
    auto after = make(second);
    for (size_t i = 0; i < after->state().size(); ++i) {
      EXPECT_EQ(after->state()[i].name, before->state()[i].name);
      at::Tensor(after->state()[i].tensor).copy_(before->state()[i].tensor);
    }
    RunSteps(*after, second, 6, 10, 0.01);
    EXPECT_TRUE(whole.equal(second));
  }
}

TEST(Optimizer, FoundInfLeavesEverythingAsItWas) {
  for (const bool adamw : {false, true}) {
    at::Tensor parameter = StartTensor();
    auto optimizer = adamw ? MakeAdamW({}, {{"w", parameter}}) : MakeSgd({}, {{"w", parameter}});
    const at::Tensor gradient = at::tensor({1.0, 2.0, 3.0}, at::kFloat);
    optimizer->Step({gradient}, 0.1, {});
    const at::Tensor weights = parameter.detach().clone();
    std::vector<at::Tensor> state;
    for (const OptimizerTensor& entry : optimizer->state()) state.push_back(entry.tensor.clone());
    optimizer->Step({gradient}, 0.1, at::full({}, 1.0, at::kFloat));
    EXPECT_TRUE(weights.equal(parameter.detach()));
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_TRUE(state[i].equal(optimizer->state()[i].tensor)) << optimizer->state()[i].name;
    }
  }
}

}  // namespace
}  // namespace muster::worker
