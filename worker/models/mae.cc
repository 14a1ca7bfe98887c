#include "worker/models/mae.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/zeros.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "worker/models/layers/init.h"
#include "worker/models/layers/patches.h"
#include "worker/models/layers/transformer_block.h"

namespace muster::worker {
namespace {

constexpr double kMaeNormEpsilon = 1e-12;  // as in the published configuration
constexpr double kTokenDeviation = 0.02;
constexpr double kPositionBase = 10000;

int64_t SeenPatches(int64_t patches, double mask_ratio) {
  return static_cast<int64_t>(static_cast<double>(patches) * (1 - mask_ratio));
}

// [1, 1 + rows x columns, width]: a row of zeros for the class token, then for each patch
// [sin column, cos column, sin row, cos row], a quarter of the width each. Column before row, as
// the published weights were trained.
at::Tensor SineCosinePositions(int64_t rows, int64_t columns, int64_t width) {
  const auto real = at::TensorOptions(at::kDouble);
  const int64_t quarter = width / 4;
  const at::Tensor frequency =
      at::pow(kPositionBase, at::arange(quarter, real) / static_cast<double>(quarter)).reciprocal();
  const at::Tensor row = at::arange(rows, real).repeat_interleave(columns);
  const at::Tensor column = at::arange(columns, real).repeat({rows});
  const at::Tensor of_row = at::outer(row, frequency);
  const at::Tensor of_column = at::outer(column, frequency);
  const at::Tensor patches =
      at::cat({of_column.sin(), of_column.cos(), of_row.sin(), of_row.cos()}, 1);
  return at::cat({at::zeros({1, width}, real), patches}, 0).to(at::kFloat).unsqueeze(0);
}

// Picks, for each sample, the tokens of x [B, T, D] by index [B, N].
at::Tensor GatherTokens(const at::Tensor& x_BTD, const at::Tensor& index_BN) {
  return at::gather(x_BTD, 1, index_BN.unsqueeze(-1).expand({-1, -1, x_BTD.size(2)}));
}

TransformerBlockNames Names() {
  return {.attention_norm = "layernorm_before",
          .query_key_value = {"attention.attention.query", "attention.attention.key",
                              "attention.attention.value"},
          .attention_output = "attention.output.dense",
          .mlp_norm = "layernorm_after",
          .mlp_in = "intermediate.dense",
          .mlp_out = "output.dense"};
}

class Mae final : public Model {
 public:
  Mae(const MaeConfig& config, const ModelContext& context)
      : config_(config),
        device_(context.device),
        checkpoint_blocks_(context.checkpoint_blocks),
        init_(context.seed, context.device) {
    AddEncoder(context);
    AddDecoder(context);
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    const Hiding hiding = Hide(inputs.size(0));
    const at::Tensor patches = EmbedPatches(inputs, patch_weight_, patch_bias_);
    const at::Tensor seen =
        GatherTokens(patches + positions_.narrow(1, 1, patches.size(1)), hiding.seen);
    const at::Tensor token =
        (class_token_ + positions_.narrow(1, 0, 1)).expand({inputs.size(0), -1, -1});
    at::Tensor x_BTD = at::cat({token, seen}, 1);
    x_BTD = RunBlocks(blocks_, std::move(x_BTD), training(), checkpoint_blocks_);
    return {Decode(norm_(x_BTD), hiding.order), hiding.mask};
  }

 private:
  // Which patches of each sample are hidden.
  struct Hiding {
    at::Tensor seen;   // int64 [B, seen]: the patches that the encoder sees
    at::Tensor order;  // int64 [B, P]: where each patch stands when the seen ones come first
    at::Tensor mask;   // float [B, P]: 1 where it is hidden
  };

  AddParameterFunction Adder() {
    return [this](std::string name, at::Tensor values) {
      return AddParameter(std::move(name), std::move(values), device_);
    };
  }

  void AddEncoder(const ModelContext& context) {
    const AddParameterFunction add = Adder();
    const int64_t channels = context.input_shape[0], patch = config_.patch_size;
    const int64_t width = config_.width;
    const int64_t rows = context.input_shape[1] / patch, columns = context.input_shape[2] / patch;
    class_token_ = add("vit.embeddings.cls_token", init_.Normal({1, 1, width}, kTokenDeviation));
    positions_ = AddBuffer("vit.embeddings.position_embeddings",
                           SineCosinePositions(rows, columns, width), device_);
    patch_weight_ = add(
        "vit.embeddings.patch_embeddings.projection.weight",
        init_.XavierUniform(width, channels * patch * patch).view({width, channels, patch, patch}));
    patch_bias_ = add("vit.embeddings.patch_embeddings.projection.bias", at::zeros({width}));
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      blocks_.push_back(MakeTransformerBlock(
          {.width = width,
           .mlp_width = config_.mlp_width,
           .heads = config_.heads,
           .norm_epsilon = kMaeNormEpsilon},
          Names(), absl::StrCat("vit.encoder.layer.", layer, "."), init_, add));
    }
    norm_ = MakeNorm("vit.layernorm", width, kMaeNormEpsilon, add);
    decoder_positions_ = SineCosinePositions(rows, columns, config_.decoder_width);
  }

  void AddDecoder(const ModelContext& context) {
    const AddParameterFunction add = Adder();
    const int64_t width = config_.decoder_width;
    mask_token_ = add("decoder.mask_token", init_.Normal({1, 1, width}, kTokenDeviation));
    decoder_positions_ = AddBuffer("decoder.decoder_pos_embed", decoder_positions_, device_);
    decoder_embed_ = MakeLinear("decoder.decoder_embed", width, config_.width, 0, init_, add);
    for (int64_t layer = 0; layer < config_.decoder_layers; ++layer) {
      decoder_blocks_.push_back(MakeTransformerBlock(
          {.width = width,
           .mlp_width = config_.decoder_mlp_width,
           .heads = config_.decoder_heads,
           .norm_epsilon = kMaeNormEpsilon},
          Names(), absl::StrCat("decoder.decoder_layers.", layer, "."), init_, add));
    }
    decoder_norm_ = MakeNorm("decoder.decoder_norm", width, kMaeNormEpsilon, add);
    const int64_t values = context.input_shape[0] * config_.patch_size * config_.patch_size;
    predict_ = MakeLinear("decoder.decoder_pred", values, width, 0, init_, add);
  }

  // As doubles: no two patches of a sample have the same.
  at::Tensor Noise(int64_t batch, int64_t patches) const {
    const std::vector<int64_t>& ids = samples().ids;
    TORCH_CHECK(ids.empty() || static_cast<int64_t>(ids.size()) == batch, "mae: ", ids.size(),
                " ids for ", batch, " samples");
    const uint64_t seed = training() ? samples().seed : kMaeEvaluationSeed;
    at::Tensor noise = at::empty({batch, patches}, at::TensorOptions(at::kDouble));
    double* next = noise.mutable_data_ptr<double>();
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t id = ids.empty() ? i : ids[static_cast<size_t>(i)];
      const uint64_t stream = DeriveSeed(seed, static_cast<uint64_t>(id));
      for (int64_t patch = 0; patch < patches; ++patch) {
        const uint64_t bits = SplitMix64(stream ^ SplitMix64(static_cast<uint64_t>(patch)));
        *next++ = static_cast<double>(bits >> 11) * 0x1.0p-53;
      }
    }
    return noise.to(device_);
  }

  Hiding Hide(int64_t batch) const {
    const int64_t patches = positions_.size(1) - 1;
    const int64_t seen = SeenPatches(patches, config_.mask_ratio);
    const at::Tensor shuffle = at::argsort(Noise(batch, patches), int64_t{1});
    Hiding hiding;
    hiding.order = at::argsort(shuffle, int64_t{1});
    hiding.seen = shuffle.narrow(1, 0, seen);
    hiding.mask = hiding.order.ge(seen).to(at::kFloat);
    return hiding;
  }

  // latent: [B, 1 + seen, D], the class token first.
  at::Tensor Decode(const at::Tensor& latent, const at::Tensor& order_BP) const {
    const at::Tensor embedded = decoder_embed_(latent);
    const int64_t seen = latent.size(1) - 1, patches = order_BP.size(1);
    // Under autocast the layer gives another type than its weights have.
    const at::Tensor hidden =
        mask_token_.to(embedded.scalar_type()).expand({latent.size(0), patches - seen, -1});
    const at::Tensor shuffled = at::cat({embedded.narrow(1, 1, seen), hidden}, 1);
    at::Tensor x_BTD = at::cat({embedded.narrow(1, 0, 1), GatherTokens(shuffled, order_BP)}, 1);
    x_BTD = x_BTD + decoder_positions_;
    x_BTD = RunBlocks(decoder_blocks_, std::move(x_BTD), training(), checkpoint_blocks_);
    return predict_(decoder_norm_(x_BTD)).narrow(1, 1, patches);
  }

  const MaeConfig config_;
  const at::Device device_;
  const bool checkpoint_blocks_;
  Initializer init_;
  at::Tensor class_token_;                // [1, 1, D]
  at::Tensor positions_;                  // [1, 1 + P, D]
  at::Tensor patch_weight_, patch_bias_;  // [D, channels, patch, patch], [D]
  std::vector<TransformerBlock> blocks_;
  NormLayer norm_;
  LinearLayer decoder_embed_;
  at::Tensor mask_token_;         // [1, 1, decoder D]
  at::Tensor decoder_positions_;  // [1, 1 + P, decoder D]
  std::vector<TransformerBlock> decoder_blocks_;
  NormLayer decoder_norm_;
  LinearLayer predict_;
};

absl::Status CheckWidth(const char* name, int64_t width, int64_t heads) {
  if (heads >= 1 && width >= 4 && width % heads == 0 && width % 4 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mae: ", name, " ", width, " is not a multiple of 4 and of ", heads, " heads"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeMae(const MaeConfig& config,
                                               const ModelContext& context) {
  MUSTER_RETURN_IF_ERROR(CheckPatches("mae", context.input_shape, config.patch_size));
  MUSTER_RETURN_IF_ERROR(CheckWidth("width", config.width, config.heads));
  MUSTER_RETURN_IF_ERROR(CheckWidth("decoder_width", config.decoder_width, config.decoder_heads));
  const int64_t patches = PatchCount(context.input_shape, config.patch_size);
  const int64_t seen = SeenPatches(patches, config.mask_ratio);
  if (seen < 1 || seen >= patches) {
    return absl::InvalidArgumentError(
        absl::StrCat("mae: a mask_ratio of ", config.mask_ratio, " leaves ", seen, " of ", patches,
                     " patches to see: at least one must be seen and one hidden"));
  }
  return std::make_unique<Mae>(config, context);
}

}  // namespace muster::worker
