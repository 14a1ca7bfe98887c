// What weights a run begins with or learns from, their moving average, and which of them stay.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/models/mae_to_vit.h"
#include "worker/train/recipe/distillation.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/data/data_recipe.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

// Fine-tuning: of a masked autoencoder its encoder; any other file as it is.
absl::StatusOr<NamedTensors> EncoderOfMae(NamedTensors tensors) {
  std::vector<ModelTensor> state;
  for (const NamedTensor& entry : tensors) state.push_back({entry.name, entry.tensor});
  if (!IsMae(state)) return tensors;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ModelTensor> vit, MaeEncoderToVit(state));
  NamedTensors converted;
  for (const ModelTensor& entry : vit) converted.push_back({entry.name, entry.tensor});
  return converted;
}

}  // namespace

std::unique_ptr<Ema> BuildEma(const trainer_spec::Ema& spec, const Model& model) {
  if (spec.every_steps == 0) return nullptr;  // not in the recipe
  return std::make_unique<Ema>(
      EmaConfig{spec.decay, static_cast<int64_t>(spec.every_steps), spec.warmup}, model);
}

std::unique_ptr<Transfer> BuildTransfer(const trainer_spec::Train& train, FileSystem& fs) {
  const trainer_spec::Weights& spec = train.weights;
  if (spec.path.empty()) return nullptr;  // not in the recipe
  TransferConfig config;
  config.path = spec.path;
  for (const trainer_spec::NameMap& rule : spec.map)
    config.rules.map.push_back({rule.from, rule.to});
  config.rules.ignore = spec.ignore;
  config.rules.strict = spec.strict;
  if (train.model.vit.has_value()) config.layout = EncoderOfMae;
  return std::make_unique<Transfer>(fs, std::move(config));
}

absl::StatusOr<DistillationParts> BuildDistillation(const trainer_spec::JobSpec& spec,
                                                    const Dataset& dataset,
                                                    std::unique_ptr<Objective> task,
                                                    at::Device device, FileSystem& fs,
                                                    Collectives& gang) {
  const trainer_spec::Distill& distill = spec.train.distill;
  if (distill.teacher.empty()) return DistillationParts{std::move(task), ""};  // not in the recipe
  if (distill.model.plugin.has_value()) {
    return Classify(absl::InvalidArgumentError("train.distill.model: a teacher is no plug-in"),
                    kStartFailed);
  }
  if (!task->accuracy_leads() && !HasTokens(spec.train.data)) {
    return Classify(absl::InvalidArgumentError(
                        "train.distill: the data's targets are numbers to regress, and a teacher's "
                        "outputs are compared as classes"),
                    kStartFailed);
  }
  trainer_spec::JobSpec taught = spec;
  taught.train.model = distill.model;
  taught.train.memory.checkpoint_blocks = false;  // it has no backward pass
  auto teacher = BuildModel(taught, dataset, device);
  if (!teacher.ok()) return Classify(teacher.status(), kStartFailed, "train.distill.model");
  DistillationParts distillation;
  MUSTER_ASSIGN_OR_RETURN(distillation.teacher_fingerprint,
                          LoadTeacher(fs, distill.teacher, **teacher, gang));
  distillation.objective =
      MakeDistillation({distill.temperature, distill.alpha}, std::move(task), *std::move(teacher));
  return distillation;
}

absl::StatusOr<std::unique_ptr<Pruner>> BuildPruner(const trainer_spec::Prune& spec,
                                                    const Model& model, const Ema* ema,
                                                    int64_t total_steps) {
  if (spec.sparsity == 0) return std::unique_ptr<Pruner>();  // not in the recipe
  PruneConfig config;
  config.sparsity = spec.sparsity;
  config.begin_step = static_cast<int64_t>(spec.begin_step);
  config.end_step = static_cast<int64_t>(spec.end_step);
  config.every_steps = spec.every_steps;
  config.pattern = spec.pattern;
  config.global = spec.scope == trainer_spec::PruneScope::kGlobal;
  if (config.end_step > total_steps) {
    return Classify(
        absl::InvalidArgumentError(absl::StrCat("train.prune.end_step is ", config.end_step,
                                                ", but the run ends after step ", total_steps)),
        kStartFailed);
  }
  auto pruner = Pruner::Create(config, model, ema);
  if (!pruner.ok()) return Classify(pruner.status(), kStartFailed);
  return pruner;
}

}  // namespace muster::worker
