#include <sstream>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "worker/models/foreign/plugin_loader.h"
#include "worker/models/foreign/torchscript.h"
#include "worker/models/foreign/trial.h"
#include "worker/models/gpt2.h"
#include "worker/models/mae.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"
#include "worker/models/vit.h"
#include "worker/train/run/failure.h"
#include "worker/train/run/seed_purpose.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/data/data_recipe.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxModelBytes = uint64_t{64} << 30;

absl::StatusOr<std::unique_ptr<Model>> OrStartFailed(absl::StatusOr<std::unique_ptr<Model>> model) {
  if (model.ok()) return model;
  return Classify(model.status(), kStartFailed, "train.model");
}

absl::StatusOr<std::unique_ptr<Model>> BuildResNet(ResNetDepth depth,
                                                   const trainer_spec::ResNet& resnet,
                                                   const ModelContext& context) {
  return OrStartFailed(MakeResNet({.depth = depth,
                                   .width = static_cast<int64_t>(resnet.width),
                                   .imagenet_stem = resnet.stem == trainer_spec::Stem::kImagenet,
                                   .zero_init_residual = resnet.zero_init_residual},
                                  context));
}

VitConfig ToConfig(const trainer_spec::Vit& vit) {
  return {.patch_size = vit.patch_size,
          .layers = vit.layers,
          .heads = vit.heads,
          .width = vit.width,
          .mlp_width = vit.mlp_width,
          .dropout = vit.dropout,
          .attention_dropout = vit.attention_dropout};
}

MaeConfig ToConfig(const trainer_spec::Mae& mae) {
  return {.patch_size = mae.patch_size,
          .layers = mae.layers,
          .heads = mae.heads,
          .width = mae.width,
          .mlp_width = mae.mlp_width,
          .decoder_layers = mae.decoder_layers,
          .decoder_heads = mae.decoder_heads,
          .decoder_width = mae.decoder_width,
          .decoder_mlp_width = mae.decoder_mlp_width,
          .mask_ratio = mae.mask_ratio};
}

// A network that others made, out of a file: whatever goes wrong with it, the message names the
// file.
absl::StatusOr<std::unique_ptr<Model>> Foreign(
    const std::string& path, const trainer_spec::JobSpec& spec, const ModelContext& context,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Model>>()> make) {
  std::unique_ptr<Model> model;
  absl::Status status = TorchGuard([&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(model, make());
    return CheckOutput(*model, context, HasTokens(spec.train.data));
  });
  if (status.ok()) return model;
  // What a library throws tells its whole way down; its first line says what is wrong.
  std::string message(status.message().substr(0, status.message().find('\n')));
  if (!absl::StrContains(message, path)) message = absl::StrCat(path, ": ", message);
  return Classify(absl::InvalidArgumentError(message), kStartFailed, "train.model");
}

absl::StatusOr<std::unique_ptr<Model>> ReadTorchScript(const std::string& path,
                                                       const trainer_spec::JobSpec& spec,
                                                       const ModelContext& context) {
  return Foreign(path, spec, context, [&]() -> absl::StatusOr<std::unique_ptr<Model>> {
    MUSTER_ASSIGN_OR_RETURN(std::string bytes, PosixFileSystem().ReadFile(path, kMaxModelBytes));
    std::istringstream file(std::move(bytes));
    return MakeTorchScript(file, context);
  });
}

}  // namespace

ReconstructionConfig ReconstructionOf(const trainer_spec::Mae& mae) {
  return {.patch_size = mae.patch_size, .norm_pix_loss = mae.norm_pix_loss};
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  const Dataset& dataset, at::Device device) {
  ModelContext context;
  context.input_shape = dataset.shape();
  context.classes = dataset.classes();
  context.device = device;
  return BuildModel(spec, std::move(context));
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  ModelContext context) {
  const trainer_spec::Model& model = spec.train.model;
  context.seed = SeedFor(spec.train.seed, SeedPurpose::kInitialWeights);
  context.checkpoint_blocks = spec.train.memory.checkpoint_blocks;
  if (context.device.is_cuda()) context.picture_format = at::MemoryFormat::ChannelsLast;
  if (model.mlp.has_value()) {
    const std::vector<uint32_t>& hidden = model.mlp->hidden;
    return MakeMlp({std::vector<int64_t>(hidden.begin(), hidden.end())}, context);
  }
  if (model.resnet18.has_value()) return BuildResNet(ResNetDepth::k18, *model.resnet18, context);
  if (model.resnet34.has_value()) return BuildResNet(ResNetDepth::k34, *model.resnet34, context);
  if (model.resnet50.has_value()) return BuildResNet(ResNetDepth::k50, *model.resnet50, context);
  if (model.resnet101.has_value()) return BuildResNet(ResNetDepth::k101, *model.resnet101, context);
  if (model.vit.has_value()) return OrStartFailed(MakeVit(ToConfig(*model.vit), context));
  if (model.mae.has_value()) return OrStartFailed(MakeMae(ToConfig(*model.mae), context));
  if (model.gpt2.has_value()) {
    const trainer_spec::Gpt2& gpt2 = *model.gpt2;
    auto made =
        MakeGpt2({gpt2.layers, gpt2.heads, gpt2.width, gpt2.context, gpt2.vocabulary, gpt2.dropout},
                 context);
    if (made.ok()) return made;
    return Classify(made.status(), kStartFailed, "train.model");
  }
  if (model.torchscript.has_value()) return ReadTorchScript(model.torchscript->path, spec, context);
  if (model.plugin.has_value()) {
    const trainer_spec::Plugin& plugin = *model.plugin;
    return Foreign(plugin.path, spec, context, [&] {
      return LoadPlugin({plugin.path, plugin.model, plugin.options, HasTokens(spec.train.data)},
                        context);
    });
  }
  return Classify(absl::InvalidArgumentError("train.model names no model"), kStartFailed);
}

absl::StatusOr<std::unique_ptr<Objective>> BuildObjective(const trainer_spec::Train& train,
                                                          const Dataset& dataset) {
  if (train.model.mae.has_value()) return MakeReconstruction(ReconstructionOf(*train.model.mae));
  if (HasTokens(train.data)) return MakeLanguageModel(train.label_smoothing);
  if (at::isFloatingType(dataset.target_type())) {
    if (train.loss == trainer_spec::LossName::kMse) return MakeRegression();
    return Classify(absl::InvalidArgumentError("the data's targets are no classes but numbers to "
                                               "regress: choose train.loss mse"),
                    kStartFailed);
  }
  if (train.loss == trainer_spec::LossName::kBce)
    return MakeBinaryCrossEntropy(train.label_smoothing);
  if (train.loss == trainer_spec::LossName::kMse) return MakeMeanSquaredError();
  return MakeCrossEntropy(train.label_smoothing);
}

}  // namespace muster::worker
