#include "worker/models/layers/transformer_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "worker/models/layers/dense.h"
#include "worker/models/layers/recompute.h"

namespace muster::worker {
namespace {

constexpr double kMlpBiasDeviation = 1e-6;

at::Tensor Drop(const at::Tensor& x, double probability, bool training) {
  return training && probability > 0 ? at::dropout(x, probability, /*train=*/true) : x;
}

// Query, key and value, each [B, T, D].
std::vector<at::Tensor> Project(const TransformerBlock& block, const at::Tensor& x_BTD) {
  if (block.query_key_value.size() == 1) return block.query_key_value[0](x_BTD).chunk(3, -1);
  std::vector<at::Tensor> parts;
  for (const LinearLayer& layer : block.query_key_value) parts.push_back(layer(x_BTD));
  return parts;
}

at::Tensor Attend(const TransformerBlock& block, const at::Tensor& x_BTD, bool training) {
  const int64_t tokens = x_BTD.size(1), heads = block.config.heads;
  const std::vector<at::Tensor> parts = Project(block, x_BTD);
  const auto by_head = [&](const at::Tensor& part_BTD) {
    return part_BTD.view({-1, tokens, heads, block.config.width / heads}).transpose(1, 2);
  };
  const at::Tensor y_BHTd = at::scaled_dot_product_attention(
      by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), /*attn_mask=*/{},
      training ? block.config.attention_dropout : 0.0, block.config.causal);
  return block.attention_output(y_BHTd.transpose(1, 2).flatten(2));
}

}  // namespace

at::Tensor LinearLayer::operator()(const at::Tensor& x) const {
  if (!is_transposed) return Dense(x, weight, bias);
  // The weight is a leaf here, not a view of one: so autocast casts it once a step.
  const at::Tensor y = at::addmm(bias, x.reshape({-1, x.size(-1)}), weight);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.front() = -1;  // an exported network takes batches of any size
  sizes.back() = weight.size(1);
  return y.view(sizes);
}

at::Tensor NormLayer::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

at::Tensor TransformerBlock::operator()(const at::Tensor& x_BTD, bool training) const {
  const at::Tensor attended =
      x_BTD + Drop(Attend(*this, attention_norm(x_BTD), training), config.dropout, training);
  const at::Tensor wide = at::gelu(mlp_in(mlp_norm(attended)), config.gelu_tanh ? "tanh" : "none");
  const at::Tensor y = mlp_out(Drop(wide, config.hidden_dropout, training));
  return attended + Drop(y, config.dropout, training);
}

std::vector<at::Tensor> TransformerBlock::Parameters() const {
  std::vector<at::Tensor> parameters = {attention_norm.weight, attention_norm.bias};
  for (const LinearLayer& layer : query_key_value) {
    parameters.insert(parameters.end(), {layer.weight, layer.bias});
  }
  parameters.insert(parameters.end(),
                    {attention_output.weight, attention_output.bias, mlp_norm.weight, mlp_norm.bias,
                     mlp_in.weight, mlp_in.bias, mlp_out.weight, mlp_out.bias});
  return parameters;
}

at::Tensor RunBlocks(const std::vector<TransformerBlock>& blocks, at::Tensor x_BTD, bool training,
                     bool checkpoint) {
  return RunOrRecompute(blocks, std::move(x_BTD), checkpoint && training,
                        [training](const TransformerBlock& block, const at::Tensor& x, Pass) {
                          return block(x, training);
                        });
}

NormLayer MakeNorm(const std::string& name, int64_t width, double epsilon,
                   const AddParameterFunction& add) {
  NormLayer norm;
  norm.weight = add(name + ".weight", at::ones({width}));
  norm.bias = add(name + ".bias", at::zeros({width}));
  norm.epsilon = epsilon;
  return norm;
}

LinearLayer MakeLinear(const std::string& name, int64_t out, int64_t in, double bias_deviation,
                       Initializer& init, const AddParameterFunction& add) {
  LinearLayer layer;
  layer.weight = add(name + ".weight", init.XavierUniform(out, in));
  layer.bias = add(name + ".bias",
                   bias_deviation > 0 ? init.Normal({out}, bias_deviation) : at::zeros({out}));
  return layer;
}

TransformerBlock MakeTransformerBlock(const TransformerBlockConfig& config,
                                      const TransformerBlockNames& names, const std::string& prefix,
                                      Initializer& init, const AddParameterFunction& add) {
  const int64_t width = config.width;
  TransformerBlock block;
  block.config = config;
  block.attention_norm = MakeNorm(prefix + names.attention_norm, width, config.norm_epsilon, add);
  const int64_t out = 3 * width / static_cast<int64_t>(names.query_key_value.size());
  const std::string separator = names.joined_with_underscore ? "_" : ".";
  for (const std::string& name : names.query_key_value) {
    LinearLayer layer;
    layer.weight = add(prefix + name + separator + "weight", init.XavierUniform(out, width));
    layer.bias = add(prefix + name + separator + "bias", at::zeros({out}));
    block.query_key_value.push_back(layer);
  }
  const std::string output = prefix + names.attention_output;
  block.attention_output.weight = add(output + ".weight", init.LinearWeight(width, width));
  block.attention_output.bias = add(output + ".bias", at::zeros({width}));
  block.mlp_norm = MakeNorm(prefix + names.mlp_norm, width, config.norm_epsilon, add);
  block.mlp_in =
      MakeLinear(prefix + names.mlp_in, config.mlp_width, width, kMlpBiasDeviation, init, add);
  block.mlp_out =
      MakeLinear(prefix + names.mlp_out, width, config.mlp_width, kMlpBiasDeviation, init, add);
  return block;
}

}  // namespace muster::worker
