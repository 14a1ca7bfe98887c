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
  if (model.resnet18.has_value()) {
    auto resnet = MakeResNet18({static_cast<int64_t>(model.resnet18->width),
                                model.resnet18->stem == trainer_spec::Stem::kImagenet},
                               context);
    if (resnet.ok()) return resnet;
    return Classify(resnet.status(), kStartFailed, "train.model");
  }
  return Classify(absl::InvalidArgumentError("train.model names no model"), kStartFailed);
}

std::unique_ptr<Objective> BuildObjective(const trainer_spec::Train& train) {
  if (train.loss == trainer_spec::LossName::kBce)
    return MakeBinaryCrossEntropy(train.label_smoothing);
  if (train.loss == trainer_spec::LossName::kMse) return MakeMeanSquaredError();
  return MakeCrossEntropy(train.label_smoothing);
}

}  // namespace muster::worker
