// The block of Vision Transformers (Dosovitskiy et al. 2021) and of GPT-2 (Radford et al. 2019):
// attention and two layers on each token by itself, each behind a layer norm and added to its
// input.
//
// Plain values that share their tensors with the model that made them. A block is a function of its
// input, its parameters and the random stream of dropout, so it may be run again for its gradients
// (activation checkpointing). Shapes: B samples, T tokens, D values a token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/models/layers/init.h"

namespace muster::worker {

// y = x weight^T + bias
struct LinearLayer {
  at::Tensor weight;           // [out, in]
  at::Tensor bias;             // [out]
  bool is_transposed = false;  // the weight is [in, out] instead, as GPT-2's are stored
  at::Tensor operator()(const at::Tensor& x) const;
};

struct NormLayer {
  at::Tensor weight, bias;  // [D]
  double epsilon = 1e-6;
  at::Tensor operator()(const at::Tensor& x) const;
};

struct TransformerBlockConfig {
  int64_t width = 0;      // D, a multiple of heads
  int64_t mlp_width = 0;  // between the two layers
  int64_t heads = 0;
  double dropout = 0;            // behind attention and behind the second of the two layers
  double hidden_dropout = 0;     // between the two layers
  double attention_dropout = 0;  // of the attention's weights
  double norm_epsilon = 1e-6;
  bool causal = false;     // a token attends to itself and those before it only
  bool gelu_tanh = false;  // GELU by its approximation with tanh
};

struct TransformerBlock {
  TransformerBlockConfig config;
  NormLayer attention_norm;
  // One layer that makes query, key and value side by side, or one for each of the three.
  std::vector<LinearLayer> query_key_value;
  LinearLayer attention_output;
  NormLayer mlp_norm;
  LinearLayer mlp_in, mlp_out;

  // [B, T, D] -> [B, T, D]. The parameters are those of Parameters(), in any one order.
  at::Tensor operator()(const at::Tensor& x_BTD, bool training) const;
  // Everything that the block's gradient reaches besides its input.
  std::vector<at::Tensor> Parameters() const;
};

// x through all blocks in their order. With `checkpoint`, each keeps only its input in training and
// runs again in the backward pass (recompute.h); the blocks must live until then.
at::Tensor RunBlocks(const std::vector<TransformerBlock>& blocks, at::Tensor x_BTD, bool training,
                     bool checkpoint);

// What the reference implementation calls the parts of a block, each with the prefix in front:
// "<name>.weight" and "<name>.bias".
struct TransformerBlockNames {
  std::string attention_norm;
  std::vector<std::string> query_key_value;  // three names; or one, whose weight is joined
  bool joined_with_underscore = false;       // "<name>_weight" for the joined one
  std::string attention_output;
  std::string mlp_norm;
  std::string mlp_in, mlp_out;
};

// Makes a parameter of the model: Model::AddParameter with the device filled in.
using AddParameterFunction = std::function<at::Tensor(std::string name, at::Tensor values)>;

NormLayer MakeNorm(const std::string& name, int64_t width, double epsilon,
                   const AddParameterFunction& add);
// Xavier-uniform weights; the bias is normal with `bias_deviation`, or 0.
LinearLayer MakeLinear(const std::string& name, int64_t out, int64_t in, double bias_deviation,
                       Initializer& init, const AddParameterFunction& add);
// Initial weights as torchvision's: Xavier-uniform, but the attention's output as torch.nn.Linear.
TransformerBlock MakeTransformerBlock(const TransformerBlockConfig& config,
                                      const TransformerBlockNames& names, const std::string& prefix,
                                      Initializer& init, const AddParameterFunction& add);

}  // namespace muster::worker
