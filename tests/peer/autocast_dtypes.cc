// For autocast_against_pytorch.py: prints which type each operator computes in under Muster's
// AutocastScope on the CPU, as "PRECISION INPUT OPERATOR TYPE", one a line.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "worker/train/step/amp.h"

namespace muster::worker {
namespace {

using Operators = std::vector<std::pair<const char*, std::function<at::Tensor()>>>;

// The same operators on the same shapes as in the Python file. Weights are fp32, as a model's are;
// activations are of `type`.
Operators OperatorsOn(at::ScalarType type) {
  const at::TensorOptions options(type);
  const at::Tensor x = at::ones({2, 4}, options), weight = at::ones({4, 4});
  const at::Tensor picture = at::ones({2, 4, 6, 6}, options), kernel = at::ones({4, 4, 3, 3});
  const at::Tensor sequence = at::ones({2, 4, 6}, options), kernel1 = at::ones({4, 4, 3});
  const at::Tensor heads = at::ones({2, 2, 3, 4}, options), four = at::ones({4});
  const at::Tensor batch = at::ones({2, 4, 4}, options);
  const at::Tensor other = at::ones({2, 4}), classes = at::zeros({2}, at::kLong);
  return {
      {"linear", [=] { return at::linear(x, weight, four); }},
      {"matmul", [=] { return at::matmul(x, weight); }},
      {"addmm", [=] { return at::addmm(four, x, weight); }},
      {"bmm",
       [=] {
         return at::bmm(batch, at::ones({2, 4, 4}));
       }},
      {"baddbmm",
       [=] {
         return at::baddbmm(at::ones({2, 4, 4}), batch, at::ones({2, 4, 4}));
       }},
      {"conv1d", [=] { return at::conv1d(sequence, kernel1); }},
      {"conv2d", [=] { return at::conv2d(picture, kernel); }},
      {"conv_transpose2d", [=] { return at::conv_transpose2d(picture, kernel); }},
      {"sdpa", [=] { return at::scaled_dot_product_attention(heads, heads, heads); }},
      {"layer_norm", [=] { return at::layer_norm(x, {4}, four, four); }},
      {"group_norm", [=] { return at::group_norm(picture, 2, four, four); }},
      {"batch_norm",
       [=] {
         return at::batch_norm(picture, four, four, at::zeros({4}), at::ones({4}), true, 0.1, 1e-5,
                               true);
       }},
      {"softmax", [=] { return at::softmax(x, 1); }},
      {"log_softmax", [=] { return at::log_softmax(x, 1); }},
      {"cross_entropy", [=] { return at::cross_entropy_loss(x, classes); }},
      {"mse_loss", [=] { return at::mse_loss(x, other); }},
      {"bce_with_logits", [=] { return at::binary_cross_entropy_with_logits(x, other); }},
      {"gelu", [=] { return at::gelu(x); }},
      {"relu", [=] { return at::relu(x); }},
      {"tanh", [=] { return at::tanh(x); }},
      {"sigmoid", [=] { return at::sigmoid(x); }},
      {"exp", [=] { return at::exp(x); }},
      {"dropout", [=] { return at::dropout(x, 0.5, true); }},
      {"add", [=] { return x.add(other); }},
      {"mul", [=] { return x.mul(other); }},
      {"sum", [=] { return x.sum(); }},
      {"mean", [=] { return x.mean(); }},
      {"norm", [=] { return at::linalg_vector_norm(x, 2); }},
      {"cumsum", [=] { return x.cumsum(0); }},
      {"cat",
       [=] {
         return at::cat({x, other});
       }},
      {"stack",
       [=] {
         return at::stack({x, other});
       }},
      {"max_pool2d",
       [=] {
         return at::max_pool2d(picture, {2, 2});
       }},
      {"avg_pool2d",
       [=] {
         return at::avg_pool2d(picture, {2, 2});
       }},
      {"adaptive_avg_pool2d",
       [=] {
         return at::adaptive_avg_pool2d(picture, {1, 1});
       }},
      {"embedding", [=] { return at::embedding(weight, classes); }},
  };
}

const char* NameOf(at::ScalarType type) {
  if (type == at::kFloat) return "float32";
  return type == at::kHalf ? "float16" : type == at::kBFloat16 ? "bfloat16" : "other";
}

void Print(const char* precision_name, Precision precision, at::ScalarType input) {
  for (const auto& [name, run] : OperatorsOn(input)) {
    const char* type = "refused";
    try {
      const AutocastScope autocast(precision, at::kCPU);
      type = NameOf(run().scalar_type());
    } catch (const std::exception&) {
    }
    std::printf("%s %s %s %s\n", precision_name, NameOf(input), name, type);
  }
}

}  // namespace
}  // namespace muster::worker

int main() {
  using muster::worker::Precision;
  muster::worker::Print("fp32", Precision::kFp32, at::kFloat);
  muster::worker::Print("bf16", Precision::kBf16, at::kFloat);
  muster::worker::Print("bf16", Precision::kBf16, at::kBFloat16);
  muster::worker::Print("fp16", Precision::kFp16, at::kFloat);
  muster::worker::Print("fp16", Precision::kFp16, at::kHalf);
}
