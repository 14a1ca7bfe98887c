#include "worker/models/layers/dense.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "worker/train/step/amp.h"

namespace muster::worker {
namespace {

using LayerFunction =
    std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;

struct Outcome {
  at::Tensor output, x_gradient, weight_gradient, bias_gradient;
};

struct Case {
  std::vector<int64_t> rows = {5};
  int64_t inputs = 7, outputs = 19;
  bool x_learns = true;

  at::Tensor Random(int64_t last, const at::Generator& generator) const {
    std::vector<int64_t> sizes = rows;
    sizes.push_back(last);
    return at::randn(sizes, generator);
  }
};

Outcome Learn(const Case& c, const LayerFunction& layer) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  at::Tensor x = c.Random(c.inputs, generator).requires_grad_(c.x_learns);
  at::Tensor weight = at::randn({c.outputs, c.inputs}, generator).requires_grad_();
  at::Tensor bias = at::randn({c.outputs}, generator).requires_grad_();
  const at::Tensor gradient = c.Random(c.outputs, generator);
  const at::Tensor output = layer(x, weight, bias);
  torch::autograd::backward({output}, {gradient.to(output.scalar_type())});
  return {output.detach(), x.grad(), weight.grad(), bias.grad()};
}

LayerFunction Fused(Activation activation) {
  return [=](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return Dense(x, weight, bias, activation);
  };
}

at::Tensor LinearRelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias).relu_();
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias);
}

// All but the bias's gradient comes out of the same products; that is added up in another order.
void ExpectSame(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(a.output.equal(b.output));
  EXPECT_TRUE(a.weight_gradient.equal(b.weight_gradient));
  EXPECT_TRUE(at::allclose(a.bias_gradient, b.bias_gradient, 1e-5, 1e-5));
  ASSERT_EQ(a.x_gradient.defined(), b.x_gradient.defined());
  if (!a.x_gradient.defined()) return;
  EXPECT_TRUE(a.x_gradient.equal(b.x_gradient));
}

TEST(Dense, GivesWhatItsOperatorsGive) {
  for (const Case& c : {Case{}, Case{.rows = {1}}, Case{.rows = {130}, .inputs = 33, .outputs = 64},
                        Case{.rows = {3, 4}}, Case{.rows = {2, 3, 4}}, Case{.x_learns = false},
                        Case{.outputs = 1}}) {
    SCOPED_TRACE(::testing::Message() << c.rows.size() + 1 << " axes, " << c.outputs << " outputs");
    ExpectSame(Learn(c, Fused(Activation::kNone)), Learn(c, Linear));
    ExpectSame(Learn(c, Fused(Activation::kRelu)), Learn(c, LinearRelu));
  }
}

TEST(Dense, TakesInputsAndGradientsWithGaps) {
  const auto turned = [](const LayerFunction& layer) {
    return [layer](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      return layer(x.transpose(0, 1), weight, bias).transpose(0, 1);
    };
  };
  const Case deep = {.rows = {3, 4}};
  ExpectSame(Learn(deep, turned(Fused(Activation::kNone))), Learn(deep, turned(Linear)));
  ExpectSame(Learn(deep, turned(Fused(Activation::kRelu))), Learn(deep, turned(LinearRelu)));
}

TEST(Dense, IsOneNode) {
  const at::Tensor weight = at::randn({2, 3}).requires_grad_(), bias = at::randn({2});
  const at::Tensor y = Dense(at::randn({4, 3}), weight, bias, Activation::kRelu);
  ASSERT_NE(y.grad_fn(), nullptr);
  ASSERT_EQ(y.grad_fn()->num_outputs(), 3u);
  EXPECT_EQ(y.grad_fn()->next_edge(1).function->name(), "torch::autograd::AccumulateGrad");
}

TEST(Dense, LeavesAutocastItsOperators) {
  const AutocastScope autocast(Precision::kBf16, at::kCPU);
  const Outcome fused = Learn(Case{}, Fused(Activation::kRelu));
  EXPECT_EQ(fused.output.scalar_type(), at::kBFloat16);
  ExpectSame(fused, Learn(Case{}, LinearRelu));
}

TEST(Dense, RecordsNothingWhereNothingLearns) {
  const at::Tensor x = at::randn({4, 3}), weight = at::randn({2, 3}), bias = at::randn({2});
  EXPECT_FALSE(Dense(x, weight, bias, Activation::kRelu).requires_grad());
  at::Tensor learns = weight.clone().requires_grad_();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(Dense(x, learns, bias, Activation::kRelu).equal(LinearRelu(x, weight, bias)));
}

}  // namespace
}  // namespace muster::worker
