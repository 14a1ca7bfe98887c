#include "worker/trainer/compose.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/train/failure.h"
#include "worker/train/seeding.h"

namespace muster::worker {
namespace {

std::vector<int64_t> ToInt64(const std::vector<uint32_t>& values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> BuildDataset(const trainer_spec::JobSpec& spec,
                                                      FileSystem& fs) {
  const trainer_spec::Data& data = spec.train.data;
  if (data.digits.has_value()) {
    const std::string& path = data.digits->path;
    auto digits = ReadDigits(fs, {path, static_cast<int64_t>(data.digits->image_size)});
    if (digits.ok()) return digits;
    return Classify(digits.status(), kDataError, absl::StrCat("train.data.digits.path ", path));
  }
  if (data.synthetic.has_value()) {
    const trainer_spec::Synthetic& synthetic = *data.synthetic;
    auto made = MakeSynthetic({static_cast<int64_t>(synthetic.samples), ToInt64(synthetic.shape),
                               static_cast<int64_t>(synthetic.classes),
                               SeedFor(spec.train.seed, SeedPurpose::kSyntheticData)});
    if (made.ok()) return made;
    return Classify(made.status(), kDataError, "train.data.synthetic");
  }
  return Classify(absl::InvalidArgumentError("train.data names no source"), kStartFailed);
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  const Dataset& dataset, at::Device device) {
  const trainer_spec::Model& model = spec.train.model;
  ModelContext context;
  context.input_shape = dataset.shape();
  context.classes = dataset.classes();
  context.seed = SeedFor(spec.train.seed, SeedPurpose::kInitialWeights);
  context.device = device;
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

std::unique_ptr<Optimizer> BuildOptimizer(const trainer_spec::Optimizer& spec, const Model& model) {
  std::vector<OptimizerTensor> parameters;
  for (const ModelTensor& entry : model.parameters())
    parameters.push_back({entry.name, entry.tensor});
  if (spec.name == trainer_spec::OptimizerName::kSgd) {
    return MakeSgd({spec.momentum, spec.nesterov, spec.weight_decay}, parameters);
  }
  return MakeAdamW({spec.beta1, spec.beta2, spec.eps, spec.weight_decay}, parameters);
}

Sampler BuildSampler(const trainer_spec::Train& train, const Dataset& dataset) {
  Sampler sampler(static_cast<uint64_t>(dataset.size(Split::kTrain)), train.batch_size,
                  SeedFor(train.seed, SeedPurpose::kDataOrder));
  if (train.epochs > 0) sampler.LimitToEpochs(train.epochs);
  return sampler;
}

Recipe BuildRecipe(const trainer_spec::JobSpec& spec, const Sampler& sampler, uint32_t world_size) {
  const trainer_spec::Train& train = spec.train;
  Recipe recipe;
  recipe.total_steps =
      static_cast<int64_t>(train.epochs > 0 ? sampler.StepsFor(train.epochs) : train.steps);
  recipe.schedule.name = train.schedule.name == trainer_spec::ScheduleName::kConstant
                             ? ScheduleName::kConstant
                             : ScheduleName::kCosine;
  recipe.schedule.peak = train.optimizer.lr;
  recipe.schedule.warmup_steps = static_cast<int64_t>(train.schedule.warmup_steps);
  recipe.schedule.final_fraction = train.schedule.final_fraction;
  recipe.schedule.total_steps = recipe.total_steps;
  recipe.precision =
      train.precision == trainer_spec::Precision::kBf16 ? Precision::kBf16 : Precision::kFp32;
  recipe.clip_norm = train.clip_norm;
  recipe.label_smoothing = train.label_smoothing;
  recipe.seed = train.seed;
  recipe.report_every_steps = std::max<int64_t>(1, train.report_every_steps);
  recipe.validate_every_epochs = train.validate_every_epochs;
  recipe.validate_every_steps = static_cast<int64_t>(train.validate_every_steps);
  recipe.save_every_epochs = spec.checkpoint.every_epochs;
  recipe.save_every_steps = static_cast<int64_t>(spec.checkpoint.every_steps);
  recipe.save_every = spec.checkpoint.every;
  recipe.evaluation_batch_size = std::max<int64_t>(1, train.batch_size / world_size);
  recipe.commit_timeout = spec.restart.controller_lost_timeout;
  return recipe;
}

}  // namespace muster::worker
