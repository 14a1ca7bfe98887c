#include "worker/models/layers/token_head.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace muster::worker {
namespace {

TEST(TokenHead, PadsToWholeTilesOnAGpuAlone) {
  EXPECT_EQ(RowMultiple(at::kCPU), 1);
  EXPECT_EQ(RowMultiple(at::Device(at::kCUDA, 0)), 64);
  const at::Tensor table = at::randn({50, 4});
  EXPECT_TRUE(PadRows(table, 1).is_same(table));
  EXPECT_TRUE(PadRows(table, 25).is_same(table));
  const at::Tensor padded = PadRows(table, 64);
  EXPECT_EQ(padded.sizes(), at::IntArrayRef({64, 4}));
  EXPECT_TRUE(at::equal(padded.narrow(0, 0, 50), table));
  EXPECT_TRUE(padded.narrow(0, 50, 14).eq(0).all().item<bool>());
}

TEST(TokenHead, PaddingChangesNeitherLogitsNorGradients) {
  const at::Tensor hidden = at::randn({2, 3, 4}).requires_grad_();
  const at::Tensor table = at::randn({50, 4}).requires_grad_();
  const at::Tensor weights = at::randn({2, 3, 50});
  at::Tensor logits[2], hidden_gradient[2], table_gradient[2];
  for (const int padded : {0, 1}) {
    hidden.mutable_grad().reset();
    table.mutable_grad().reset();
    logits[padded] = TokenLogits(hidden, table, padded != 0 ? 64 : 1);
    torch::autograd::backward({logits[padded].mul(weights).sum()}, {});
    hidden_gradient[padded] = hidden.grad();
    table_gradient[padded] = table.grad();
  }
  EXPECT_TRUE(at::equal(logits[0], at::linear(hidden, table)));
  EXPECT_EQ(logits[1].sizes(), at::IntArrayRef({2, 3, 50}));
  EXPECT_TRUE(at::allclose(logits[0], logits[1], 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(hidden_gradient[0], hidden_gradient[1], 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(table_gradient[0], table_gradient[1], 1e-5, 1e-6));
}

}  // namespace
}  // namespace muster::worker
