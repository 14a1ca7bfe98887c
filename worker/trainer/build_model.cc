#include "worker/models/mlp.h"
#include "worker/models/resnet.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  const Dataset& dataset, at::Device device) {
  const trainer_spec::Model& model = spec.train.model;
  ModelContext context;
  context.input_shape = dataset.shape();
  context.classes = dataset.classes();
  context.seed = SeedFor(spec.train.seed, SeedPurpose::kInitialWeights);
  context.device = device;
  context.checkpoint_blocks = spec.train.memory.checkpoint_blocks;
  if (model.mlp.has_value()) return MakeMlp({ToInt64(model.mlp->hidden)}, context);
  if (model.resnet18.has_value()) return BuildResNet(ResNetDepth::k18, *model.resnet18, context);
  if (model.resnet34.has_value()) return BuildResNet(ResNetDepth::k34, *model.resnet34, context);
  if (model.resnet50.has_value()) return BuildResNet(ResNetDepth::k50, *model.resnet50, context);
  if (model.resnet101.has_value()) return BuildResNet(ResNetDepth::k101, *model.resnet101, context);
  return Classify(absl::InvalidArgumentError("train.model names no model"), kStartFailed);
}

std::unique_ptr<Objective> BuildObjective(const trainer_spec::Train& train) {
  if (train.loss == trainer_spec::LossName::kBce)
    return MakeBinaryCrossEntropy(train.label_smoothing);
  if (train.loss == trainer_spec::LossName::kMse) return MakeMeanSquaredError();
  return MakeCrossEntropy(train.label_smoothing);
}

}  // namespace muster::worker
