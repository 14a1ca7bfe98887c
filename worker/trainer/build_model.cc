#include "worker/models/mae.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"
#include "worker/models/vit.h"
#include "worker/train/failure.h"
#include "worker/train/seeding.h"
#include "worker/trainer/compose.h"

namespace muster::worker {
namespace {

std::vector<int64_t> ToInt64(const std::vector<uint32_t>& values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

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

}  // namespace

ReconstructionConfig ReconstructionOf(const trainer_spec::Mae& mae) {
  return {.patch_size = mae.patch_size, .norm_pix_loss = mae.norm_pix_loss};
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  const SampleForm& form, at::Device device) {
  const trainer_spec::Model& model = spec.train.model;
  ModelContext context;
  context.input_shape = form.shape;
  context.classes = form.classes;
  context.seed = SeedFor(spec.train.seed, SeedPurpose::kInitialWeights);
  context.device = device;
  context.checkpoint_blocks = spec.train.memory.checkpoint_blocks;
  if (model.mlp.has_value()) return MakeMlp({ToInt64(model.mlp->hidden)}, context);
  if (model.resnet18.has_value()) return BuildResNet(ResNetDepth::k18, *model.resnet18, context);
  if (model.resnet34.has_value()) return BuildResNet(ResNetDepth::k34, *model.resnet34, context);
  if (model.resnet50.has_value()) return BuildResNet(ResNetDepth::k50, *model.resnet50, context);
  if (model.resnet101.has_value()) return BuildResNet(ResNetDepth::k101, *model.resnet101, context);
  if (model.vit.has_value()) return OrStartFailed(MakeVit(ToConfig(*model.vit), context));
  if (model.mae.has_value()) return OrStartFailed(MakeMae(ToConfig(*model.mae), context));
  return Classify(absl::InvalidArgumentError("train.model names no model"), kStartFailed);
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  const Dataset& dataset, at::Device device) {
  return BuildModel(spec, SampleForm{dataset.shape(), dataset.classes()}, device);
}

std::unique_ptr<Objective> BuildObjective(const trainer_spec::Train& train) {
  if (train.model.mae.has_value()) return MakeReconstruction(ReconstructionOf(*train.model.mae));
  if (train.loss == trainer_spec::LossName::kBce)
    return MakeBinaryCrossEntropy(train.label_smoothing);
  if (train.loss == trainer_spec::LossName::kMse) return MakeMeanSquaredError();
  return MakeCrossEntropy(train.label_smoothing);
}

}  // namespace muster::worker
