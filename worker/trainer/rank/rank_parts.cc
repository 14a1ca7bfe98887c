#include "worker/trainer/rank/rank_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/train/artifacts/confusion_report.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/agreement.h"

namespace muster::worker {
namespace {

absl::Status CheckDevice(c10::Device device) {
#ifndef MUSTER_WITH_CUDA
  if (!device.is_cpu()) {
    return Classify(absl::FailedPreconditionError(
                        "this muster-trainer was built without CUDA: build it against a CUDA "
                        "wheel of torch, or submit with per_rank.gpus: 0"),
                    kStartFailed);
  }
#else
  (void)device;
#endif
  return absl::OkStatus();
}

absl::Status CheckConfusion(const trainer_spec::Train& train, const Dataset& dataset) {
  if (!train.artifacts.confusion || dataset.classes() <= kMostConfusionClasses) {
    return absl::OkStatus();
  }
  return Classify(absl::InvalidArgumentError(absl::StrCat(
                      "the data has ", dataset.classes(), " classes, and the table is written for ",
                      "at most ", kMostConfusionClasses, ": leave it out")),
                  kStartFailed, "train.artifacts.confusion");
}

}  // namespace

absl::StatusOr<RankParts> BuildParts(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                     const RankPlace& place, const LoadHost& host) {
  const trainer_spec::Train& train = spec.train;
  MUSTER_RETURN_IF_ERROR(CheckDevice(place.device));
  RankParts parts;
  parts.device = place.device;
  MUSTER_ASSIGN_OR_RETURN(parts.dataset, BuildDataset(spec, fs, host));
  MUSTER_RETURN_IF_ERROR(CheckConfusion(train, *parts.dataset));
  MUSTER_ASSIGN_OR_RETURN(parts.augmenter, BuildAugmenter(train, *parts.dataset));
  parts.loader = BuildLoader(spec, *parts.dataset, parts.augmenter.get(), place);
  parts.recipe = BuildRecipe(spec, parts.loader->sampler(), place.world_size);
  MUSTER_RETURN_IF_ERROR(
      LimitDataMemory(train.data, parts.recipe, place.world_size, *parts.loader));
  MUSTER_ASSIGN_OR_RETURN(parts.model, BuildModel(spec, *parts.dataset, place.device));
  MUSTER_ASSIGN_OR_RETURN(parts.optimizer, BuildOptimizer(train.optimizer, *parts.model));
  parts.ema = BuildEma(train.ema, *parts.model);
  MUSTER_ASSIGN_OR_RETURN(parts.pruner, BuildPruner(train.prune, *parts.model, parts.ema.get(),
                                                    parts.recipe.total_steps));
  if (parts.pruner != nullptr)
    parts.recipe.best_from_step = static_cast<int64_t>(train.prune.end_step);
  parts.transfer = BuildTransfer(train, fs);
  return parts;
}

absl::Status JoinParts(const trainer_spec::JobSpec& spec, FileSystem& fs,
                       std::unique_ptr<Gang> gang, RankParts& parts) {
  parts.gang = std::move(gang);
  parts.strategy = parts.gang->MakeStrategy(parts.model->TrainedParameters(),
                                            {.control_size = Agreement::kControlNumbers});
  if (spec.train.parallel.sync_batch_norm) parts.model->SynchronizeBatchNorm(*parts.gang);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Objective> task,
                          BuildObjective(spec.train, *parts.dataset));
  MUSTER_ASSIGN_OR_RETURN(
      DistillationParts distillation,
      BuildDistillation(spec, *parts.dataset, std::move(task), parts.device, fs, *parts.gang));
  parts.objective = std::move(distillation.objective);
  parts.teacher_fingerprint = std::move(distillation.teacher_fingerprint);
  parts.recipe.count_confusion =
      spec.train.artifacts.confusion && parts.objective->accuracy_leads();
  return absl::OkStatus();
}

}  // namespace muster::worker
