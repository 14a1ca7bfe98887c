// One rank of a recipe's gang as the checks want it: set up as for its run (rank_parts.h), but
// without agent and checkpoints, and with as few ranks as a check needs.
//
// Used by recipe_check.cc and check_profile.cc. The functions fail as the run would fail and throw
// what torch throws.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/data/batch_queue.h"
#include "worker/dist/gang.h"
#include "worker/train/step/device_feed.h"
#include "worker/train/step/step.h"
#include "worker/trainer/rank/rank_parts.h"

namespace muster::worker {

// `recipe` is that of the whole gang, `loader` gives a rank's share of the batch.
struct Bench : RankParts {
  std::unique_ptr<DeviceFeed> feed;
  std::unique_ptr<TrainStep> step;  // refers to the other parts
};

// The ranks that the recipe starts with.
int PlannedRanks(const trainer_spec::JobSpec& spec);

// `spec` for `ranks` of its planned ranks: as much of the batch as would be theirs.
trainer_spec::JobSpec ShareOf(trainer_spec::JobSpec spec, int ranks = 1);

at::Device DeviceFor(const trainer_spec::JobSpec& spec);

// Everything but the step, where a fresh run would make its first one: with the weights that it
// begins with, its averages and its pruner. `spec` is the whole one; `gang` null: a gang of one.
absl::StatusOr<Bench> SetUpBench(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                 std::unique_ptr<Gang> gang = nullptr);

// After changes of the recipe.
void MakeStep(Bench& bench);

// This rank's share of a step's batch, as the loader makes it.
absl::StatusOr<Batch> LoadBatch(const Bench& bench, int64_t step);
// The same on the device.
absl::StatusOr<Batch> BatchAt(const Bench& bench, int64_t step);
// The first `steps` of them as the run has them, made ahead where it makes them ahead. `bench` must
// outlive it.
BatchQueue BatchesOf(const Bench& bench, int64_t steps);

}  // namespace muster::worker
