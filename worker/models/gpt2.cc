#include "worker/models/gpt2.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/models/layers/init.h"
#include "worker/models/layers/recompute.h"

namespace muster::worker {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kGpt2NormEpsilon = 1e-5;

// One transformer block: attention, then two layers on each token by itself.
struct Block {
  at::Tensor norm1_weight, norm1_bias;
  at::Tensor attention_weight, attention_bias;                        // [W, 3W]: query, key, value
  at::Tensor attention_projection_weight, attention_projection_bias;  // [W, W]
  at::Tensor norm2_weight, norm2_bias;
  at::Tensor expand_weight, expand_bias;          // [W, 4W]
  at::Tensor projection_weight, projection_bias;  // [4W, W]

  // All of them, in the order of the state dict.
  std::vector<at::Tensor> Parameters() const {
    return {norm1_weight,
            norm1_bias,
            attention_weight,
            attention_bias,
            attention_projection_weight,
            attention_projection_bias,
            norm2_weight,
            norm2_bias,
            expand_weight,
            expand_bias,
            projection_weight,
            projection_bias};
  }
};

class Gpt2 final : public Model {
 public:
  Gpt2(const Gpt2Config& config, const ModelContext& context)
      : config_(config),
        device_(context.device),
        checkpoint_blocks_(context.checkpoint_blocks),
        init_(context.seed, context.device) {
    const int64_t width = config.width;
    tokens_VW_ = AddNormal("transformer.wte.weight", {config.vocabulary, width}, kDeviation);
    positions_TW_ = AddNormal("transformer.wpe.weight", {config.context, width}, kDeviation);
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      blocks_.push_back(AddBlock(absl::StrCat("transformer.h.", layer, ".")));
    }
    AddNorm("transformer.ln_f", norm_weight_, norm_bias_);
  }

  ModelOutput Forward(const at::Tensor& inputs_BT) override {
    const int64_t length = inputs_BT.size(1);
    at::Tensor x_BTW = at::embedding(tokens_VW_, inputs_BT).add(positions_TW_.narrow(0, 0, length));
    x_BTW = Drop(x_BTW);
    x_BTW = RunOrRecompute(
        blocks_, std::move(x_BTW), checkpoint_blocks_ && training(),
        [this](const Block& block, const at::Tensor& x, Pass) { return RunBlock(block, x); });
    x_BTW = Norm(x_BTW, norm_weight_, norm_bias_);
    return {at::linear(x_BTW, tokens_VW_)};
  }

 private:
  at::Tensor AddNormal(const std::string& name, at::IntArrayRef sizes, double deviation) {
    return AddParameter(name, init_.Normal(sizes, deviation), device_);
  }

  void AddNorm(const std::string& name, at::Tensor& weight, at::Tensor& bias) {
    weight = AddParameter(name + ".weight", at::ones({config_.width}), device_);
    bias = AddParameter(name + ".bias", at::zeros({config_.width}), device_);
  }

  void AddLayer(const std::string& name, int64_t in, int64_t out, double deviation,
                at::Tensor& weight, at::Tensor& bias) {
    weight = AddNormal(name + ".weight", {in, out}, deviation);
    bias = AddParameter(name + ".bias", at::zeros({out}), device_);
  }

  Block AddBlock(const std::string& prefix) {
    const int64_t width = config_.width;
    // Each layer adds two branches to the residual; their sum keeps its size whatever the depth.
    const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
    Block block;
    AddNorm(prefix + "ln_1", block.norm1_weight, block.norm1_bias);
    AddLayer(prefix + "attn.c_attn", width, 3 * width, kDeviation, block.attention_weight,
             block.attention_bias);
    AddLayer(prefix + "attn.c_proj", width, width, residual, block.attention_projection_weight,
             block.attention_projection_bias);
    AddNorm(prefix + "ln_2", block.norm2_weight, block.norm2_bias);
    AddLayer(prefix + "mlp.c_fc", width, 4 * width, kDeviation, block.expand_weight,
             block.expand_bias);
    AddLayer(prefix + "mlp.c_proj", 4 * width, width, residual, block.projection_weight,
             block.projection_bias);
    return block;
  }

  // Depends on nothing but its arguments, the block's tensors and the random stream of dropout.
  at::Tensor RunBlock(const Block& block, const at::Tensor& x_BTW) const {
    const at::Tensor attended_BTW =
        x_BTW.add(Attend(block, Norm(x_BTW, block.norm1_weight, block.norm1_bias)));
    const at::Tensor y_BTW = Norm(attended_BTW, block.norm2_weight, block.norm2_bias);
    const at::Tensor wide = at::gelu(Layer(y_BTW, block.expand_weight, block.expand_bias), "tanh");
    return attended_BTW.add(Drop(Layer(wide, block.projection_weight, block.projection_bias)));
  }

  at::Tensor Attend(const Block& block, const at::Tensor& x_BTW) const {
    const int64_t length = x_BTW.size(1), width = config_.width;
    const auto heads = [&](const at::Tensor& part_BTW) {
      return part_BTW.view({-1, length, config_.heads, width / config_.heads}).transpose(1, 2);
    };
    const std::vector<at::Tensor> parts =
        Layer(x_BTW, block.attention_weight, block.attention_bias).split(width, 2);
    const at::Tensor y_BHTD = at::scaled_dot_product_attention(
        heads(parts[0]), heads(parts[1]), heads(parts[2]), /*attn_mask=*/{},
        training() ? config_.dropout : 0.0, /*is_causal=*/true);
    const at::Tensor y_BTW = y_BHTD.transpose(1, 2).reshape({-1, length, width});
    return Drop(Layer(y_BTW, block.attention_projection_weight, block.attention_projection_bias));
  }

  // The weights are leaves here, not views of them: so autocast casts each of them once a step.
  static at::Tensor Layer(const at::Tensor& x_BTW, const at::Tensor& weight,
                          const at::Tensor& bias) {
    const at::Tensor y = at::addmm(bias, x_BTW.reshape({-1, x_BTW.size(2)}), weight);
    return y.view({-1, x_BTW.size(1), weight.size(1)});
  }

  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    return at::layer_norm(x, {config_.width}, weight, bias, kGpt2NormEpsilon);
  }

  at::Tensor Drop(const at::Tensor& x) const {
    return config_.dropout > 0 ? at::dropout(x, config_.dropout, training()) : x;
  }

  const Gpt2Config config_;
  const at::Device device_;
  const bool checkpoint_blocks_;
  Initializer init_;
  at::Tensor tokens_VW_, positions_TW_;
  std::vector<Block> blocks_;
  at::Tensor norm_weight_, norm_bias_;
};

absl::Status CheckFit(const Gpt2Config& config, const ModelContext& context) {
  if (config.heads < 1 || config.width % config.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gpt2: width ", config.width, " is not a multiple of ", config.heads, " heads"));
  }
  if (context.input_shape.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2 wants rows of tokens, but the data's samples have shape [",
                     absl::StrJoin(context.input_shape, ", "), "]: use data.text or data.tokens"));
  }
  if (context.input_shape[0] > config.context) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2 looks back on ", config.context, " tokens, but the data's samples have ",
                     context.input_shape[0], ": raise model.gpt2.context"));
  }
  if (context.classes > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("gpt2 knows ", config.vocabulary,
                                                   " tokens, but the data has ", context.classes,
                                                   ": raise model.gpt2.vocabulary"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeGpt2(const Gpt2Config& config,
                                                const ModelContext& context) {
  if (absl::Status fit = CheckFit(config, context); !fit.ok()) return fit;
  return std::make_unique<Gpt2>(config, context);
}

}  // namespace muster::worker
