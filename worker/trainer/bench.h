// One rank of a recipe's gang as the checks want it: all that a step needs, without agent and
// checkpoints.
//
// Used by check.cc and check_profile.cc. The functions fail as the run would fail and throw what
// torch throws.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/dist/collectives.h"
#include "worker/train/step.h"
#include "worker/trainer/compose.h"

namespace muster::worker {

// Members are torn down in the reverse order of their making.
struct Bench {
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Augmenter> augmenter;
  std::unique_ptr<Loader> loader;
  Recipe recipe;
  std::unique_ptr<Collectives> gang;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<TrainStep> step;
};

// The ranks that the recipe starts with.
int PlannedRanks(const trainer_spec::JobSpec& spec);

// `spec` for `ranks` of its planned ranks: as much of the batch as would be theirs.
trainer_spec::JobSpec ShareOf(trainer_spec::JobSpec spec, int ranks = 1);

at::Device DeviceFor(const trainer_spec::JobSpec& spec);

// Everything but the step. `gang` null: a gang of one.
absl::StatusOr<Bench> SetUpBench(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                 std::unique_ptr<Collectives> gang = nullptr);

// After changes of the recipe.
void MakeStep(const trainer_spec::JobSpec& spec, Bench& bench);

// This rank's share of a step's batch, on the device.
Batch BatchAt(const Bench& bench, int64_t step, at::Device device);

}  // namespace muster::worker
