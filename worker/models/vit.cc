#include "worker/models/vit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/models/layers/init.h"
#include "worker/models/layers/patches.h"
#include "worker/models/layers/transformer_block.h"

namespace muster::worker {
namespace {

constexpr double kVitNormEpsilon = 1e-6;
constexpr double kPositionDeviation = 0.02;  // as BERT's

class Vit final : public Model {
 public:
  Vit(const VitConfig& config, const ModelContext& context)
      : config_(config),
        checkpoint_blocks_(context.checkpoint_blocks),
        init_(context.seed, context.device) {
    const AddParameterFunction add = [this, &context](std::string name, at::Tensor values) {
      return AddParameter(std::move(name), std::move(values), context.device);
    };
    const int64_t width = config.width;
    const int64_t patch_values = context.input_shape[0] * config.patch_size * config.patch_size;
    class_token_ = add("class_token", at::zeros({1, 1, width}));
    // torchvision cuts this normal off at 2, which is 50 deviations away.
    patch_weight_ =
        add("conv_proj.weight",
            init_.Normal({width, context.input_shape[0], config.patch_size, config.patch_size},
                         std::sqrt(1.0 / static_cast<double>(patch_values))));
    patch_bias_ = add("conv_proj.bias", at::zeros({width}));
    const int64_t patches = PatchCount(context.input_shape, config.patch_size);
    positions_ =
        add("encoder.pos_embedding", init_.Normal({1, patches + 1, width}, kPositionDeviation));
    const TransformerBlockConfig block = {.width = width,
                                          .mlp_width = config.mlp_width,
                                          .heads = config.heads,
                                          .dropout = config.dropout,
                                          .hidden_dropout = config.dropout,
                                          .attention_dropout = config.attention_dropout,
                                          .norm_epsilon = kVitNormEpsilon};
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      blocks_.push_back(MakeTransformerBlock(
          block, Names(), absl::StrCat("encoder.layers.encoder_layer_", layer, "."), init_, add));
    }
    norm_ = MakeNorm("encoder.ln", width, kVitNormEpsilon, add);
    head_.weight = add("heads.head.weight", at::zeros({context.classes, width}));
    head_.bias = add("heads.head.bias", at::zeros({context.classes}));
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    const at::Tensor patches_BPD = EmbedPatches(inputs, patch_weight_, patch_bias_);
    const at::Tensor token = class_token_.expand_as(patches_BPD.narrow(1, 0, 1));
    at::Tensor x_BTD = at::cat({token, patches_BPD}, 1) + positions_;
    if (training() && config_.dropout > 0) x_BTD = at::dropout(x_BTD, config_.dropout, true);
    x_BTD = RunBlocks(blocks_, std::move(x_BTD), training(), checkpoint_blocks_);
    // Of the last norm only the class token is read; a norm works on each token by itself.
    return {head_(norm_(x_BTD.select(1, 0)))};
  }

 private:
  static TransformerBlockNames Names() {
    return {.attention_norm = "ln_1",
            .query_key_value = {"self_attention.in_proj"},
            .joined_with_underscore = true,
            .attention_output = "self_attention.out_proj",
            .mlp_norm = "ln_2",
            .mlp_in = "mlp.0",
            .mlp_out = "mlp.3"};
  }

  const VitConfig config_;
  const bool checkpoint_blocks_;
  Initializer init_;
  at::Tensor class_token_;                // [1, 1, D]
  at::Tensor patch_weight_, patch_bias_;  // [D, channels, patch, patch], [D]
  at::Tensor positions_;                  // [1, T, D]
  std::vector<TransformerBlock> blocks_;
  NormLayer norm_;
  LinearLayer head_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeVit(const VitConfig& config,
                                               const ModelContext& context) {
  if (absl::Status fit = CheckPatches("vit", context.input_shape, config.patch_size); !fit.ok()) {
    return fit;
  }
  if (config.heads < 1 || config.width % config.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vit: width ", config.width, " is not a multiple of ", config.heads, " heads"));
  }
  return std::make_unique<Vit>(config, context);
}

}  // namespace muster::worker
