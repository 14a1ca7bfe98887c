#include "worker/trainer/tools/bench.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/train/recipe/fresh_start.h"

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
                                 std::unique_ptr<Gang> gang) {
  if (gang == nullptr) gang = Gang::OfOne();
  const at::Device device = DeviceFor(spec);
  const RankPlace place = {device, static_cast<uint32_t>(PlannedRanks(spec)),
                           static_cast<uint32_t>(gang->world_size())};
  Bench bench;
  MUSTER_ASSIGN_OR_RETURN(static_cast<RankParts&>(bench), BuildParts(spec, fs, place));
  const AheadPlan ahead = bench.loader->ahead();  // within the job's limit
  bench.loader =
      BuildLoader(ShareOf(spec, gang->world_size()), *bench.dataset, bench.augmenter.get(), place);
  bench.loader->SetAhead(ahead);
  MUSTER_RETURN_IF_ERROR(JoinParts(spec, fs, std::move(gang), bench));
  MUSTER_RETURN_IF_ERROR(StartFresh(bench.trainer()).status());
  bench.feed = std::make_unique<DeviceFeed>(device);
  return bench;
}

void MakeStep(Bench& bench) { bench.step = std::make_unique<TrainStep>(bench.trainer()); }

absl::StatusOr<Batch> LoadBatch(const Bench& bench, int64_t step) {
  return bench.loader->TrainBatch(static_cast<uint64_t>(step),
                                  static_cast<uint32_t>(bench.gang->rank()),
                                  static_cast<uint32_t>(bench.gang->world_size()));
}

absl::StatusOr<Batch> BatchAt(const Bench& bench, int64_t step) {
  return bench.feed->Bring(LoadBatch(bench, step));
}

BatchQueue BatchesOf(const Bench& bench, int64_t steps) {
  const auto rank = static_cast<uint32_t>(bench.gang->rank());
  const auto world = static_cast<uint32_t>(bench.gang->world_size());
  return BatchQueue(
      [=, &bench](uint64_t step) { return bench.loader->BeginTrainBatch(step, rank, world); }, 0,
      static_cast<uint64_t>(steps), bench.loader->ahead());
}

}  // namespace muster::worker
