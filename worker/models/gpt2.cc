#include "worker/models/gpt2.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/models/layers/init.h"
#include "worker/models/layers/token_head.h"
#include "worker/models/layers/transformer_block.h"

namespace muster::worker {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kGpt2NormEpsilon = 1e-5;

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
    norm_ = AddNorm("transformer.ln_f");
  }

  ModelOutput Forward(const at::Tensor& inputs_BT) override {
    const int64_t length = inputs_BT.size(1);
    at::Tensor x_BTW = at::embedding(tokens_VW_, inputs_BT).add(positions_TW_.narrow(0, 0, length));
    if (config_.dropout > 0) x_BTW = at::dropout(x_BTW, config_.dropout, training());
    x_BTW = RunBlocks(blocks_, std::move(x_BTW), training(), checkpoint_blocks_);
    const at::Tensor hidden_BTW = norm_(x_BTW);
    if (samples().head_apart && config_.vocabulary >= kLargeVocabulary)
      return {.hidden = hidden_BTW, .table = tokens_VW_};
    return {TokenLogits(hidden_BTW, tokens_VW_, RowMultiple(device_))};
  }

 private:
  at::Tensor AddNormal(const std::string& name, at::IntArrayRef sizes, double deviation) {
    return AddParameter(name, init_.Normal(sizes, deviation), device_);
  }

  NormLayer AddNorm(const std::string& name) {
    return MakeNorm(name, config_.width, kGpt2NormEpsilon,
                    [this](std::string full_name, at::Tensor values) {
                      return AddParameter(std::move(full_name), std::move(values), device_);
                    });
  }

  LinearLayer AddLayer(const std::string& name, int64_t in, int64_t out, double deviation) {
    LinearLayer layer = {.is_transposed = true};
    layer.weight = AddNormal(name + ".weight", {in, out}, deviation);
    layer.bias = AddParameter(name + ".bias", at::zeros({out}), device_);
    return layer;
  }

  TransformerBlock AddBlock(const std::string& prefix) {
    const int64_t width = config_.width;
    // Each layer adds two branches to the residual; their sum keeps its size whatever the depth.
    const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
    TransformerBlock block;
    block.config = {.width = width,
                    .mlp_width = 4 * width,
                    .heads = config_.heads,
                    .dropout = config_.dropout,
                    .attention_dropout = config_.dropout,
                    .norm_epsilon = kGpt2NormEpsilon,
                    .causal = true,
                    .gelu_tanh = true};
    block.attention_norm = AddNorm(prefix + "ln_1");
    block.query_key_value = {AddLayer(prefix + "attn.c_attn", width, 3 * width, kDeviation)};
    block.attention_output = AddLayer(prefix + "attn.c_proj", width, width, residual);
    block.mlp_norm = AddNorm(prefix + "ln_2");
    block.mlp_in = AddLayer(prefix + "mlp.c_fc", width, 4 * width, kDeviation);
    block.mlp_out = AddLayer(prefix + "mlp.c_proj", 4 * width, width, residual);
    return block;
  }

  const Gpt2Config config_;
  const at::Device device_;
  const bool checkpoint_blocks_;
  Initializer init_;
  at::Tensor tokens_VW_, positions_TW_;
  std::vector<TransformerBlock> blocks_;
  NormLayer norm_;
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
