#include "worker/trainer/bench.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/train/to_device.h"

namespace muster::worker {

at::Device DeviceFor(const trainer_spec::JobSpec& spec) {
  return spec.per_rank.gpus > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

int PlannedRanks(const trainer_spec::JobSpec& spec) {
  return static_cast<int>(std::max<uint32_t>(1, spec.ranks.min));
}

trainer_spec::JobSpec ShareOf(trainer_spec::JobSpec spec, int ranks) {
  const int planned = PlannedRanks(spec);
  const uint32_t share = std::max<uint32_t>(1, spec.train.batch_size / planned);
  if (ranks < planned) spec.train.batch_size = share * static_cast<uint32_t>(ranks);
  return spec;
}

absl::StatusOr<Bench> SetUpBench(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                 std::unique_ptr<Collectives> gang) {
  Bench bench;
  bench.gang = gang == nullptr ? MakeLocalCollectives() : std::move(gang);
  const at::Device device = DeviceFor(spec);
  MUSTER_ASSIGN_OR_RETURN(bench.dataset, BuildDataset(spec, fs));
  MUSTER_ASSIGN_OR_RETURN(bench.augmenter, BuildAugmenter(spec.train, *bench.dataset));
  bench.loader = std::make_unique<Loader>(*bench.dataset, BuildSampler(spec.train, *bench.dataset),
                                          bench.augmenter.get());
  bench.recipe =
      BuildRecipe(spec, bench.loader->sampler(), static_cast<uint32_t>(bench.gang->world_size()));
  MUSTER_ASSIGN_OR_RETURN(bench.model, BuildModel(spec, *bench.dataset, device));
  MUSTER_ASSIGN_OR_RETURN(bench.optimizer, BuildOptimizer(spec.train.optimizer, *bench.model));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Objective> task,
                          BuildObjective(spec.train, *bench.dataset));
  MUSTER_ASSIGN_OR_RETURN(
      Lesson lesson, BuildLesson(spec, *bench.dataset, std::move(task), device, fs, *bench.gang));
  bench.objective = std::move(lesson.objective);
  if (spec.train.parallel.sync_batch_norm) bench.model->SynchronizeBatchNorm(*bench.gang);
  return bench;
}

void MakeStep(const trainer_spec::JobSpec& spec, Bench& bench) {
  bench.step = std::make_unique<TrainStep>(
      bench.recipe,
      StepParts{*bench.model, *bench.objective, *bench.optimizer, *bench.gang, DeviceFor(spec)});
}

Batch BatchAt(const Bench& bench, int64_t step, at::Device device) {
  return ToDevice(bench.loader->TrainBatch(static_cast<uint64_t>(step),
                                           static_cast<uint32_t>(bench.gang->rank()),
                                           static_cast<uint32_t>(bench.gang->world_size())),
                  device);
}

}  // namespace muster::worker
