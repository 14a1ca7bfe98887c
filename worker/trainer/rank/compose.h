// From the resolved spec to the parts of a training run. Construction only: no rule is decided
// here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/data/augment/augment.h"
#include "worker/data/base/dataset.h"
#include "worker/data/loader.h"
#include "worker/data/order/sampler.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/optim/optimizer.h"
#include "worker/train/objective/objective.h"
#include "worker/train/objective/reconstruction.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/run/recipe.h"

namespace muster::worker {

// What a rank tells and asks while its data are loaded, by a thread that is there for as long.
struct LoadHost {
  // About once a second, as long as data are read: the rank is not hung.
  std::function<void()> sign_of_life = [] {};
  // Ten times a second: whether to go on.
  std::function<bool()> goes_on = [] { return true; };
};

// DATA_ERROR when the data is missing or unreadable; the message names the file and how to get it.
// CANCELLED when `host` says to stop. Data in files are indexed, and others read whole, which may
// take minutes.
absl::StatusOr<std::unique_ptr<Dataset>> BuildDataset(const trainer_spec::JobSpec& spec,
                                                      FileSystem& fs, const LoadHost& host = {});

// Shape and classes of the samples, read from them only where the spec does not tell. As
// BuildDataset.
absl::StatusOr<ModelContext> SampleContext(const trainer_spec::JobSpec& spec, FileSystem& fs);

// Null when the recipe augments nothing. START_FAILED when it does not fit the data.
absl::StatusOr<std::unique_ptr<Augmenter>> BuildAugmenter(const trainer_spec::Train& train,
                                                          const Dataset& dataset);

// START_FAILED when the model does not fit the data.
absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  const Dataset& dataset, at::Device device);

// The same for samples that are only described; `context.seed` is taken from the spec.
absl::StatusOr<std::unique_ptr<Model>> BuildModel(const trainer_spec::JobSpec& spec,
                                                  ModelContext context);

// What a masked autoencoder is asked for.
ReconstructionConfig ReconstructionOf(const trainer_spec::Mae& mae);

// What the model is trained to do. START_FAILED when the data does not fit that.
absl::StatusOr<std::unique_ptr<Objective>> BuildObjective(const trainer_spec::Train& train,
                                                          const Dataset& dataset);

// What a run with `train.distill` learns, and the fingerprint of the teacher's file; without it the
// task alone, and no fingerprint.
struct DistillationParts {
  std::unique_ptr<Objective> objective;
  std::string teacher_fingerprint;
};
// `task` is BuildObjective's. All ranks call it: they share what rank 0 reads. START_FAILED when
// the teacher cannot be read or does not fit the data.
absl::StatusOr<DistillationParts> BuildDistillation(const trainer_spec::JobSpec& spec,
                                                    const Dataset& dataset,
                                                    std::unique_ptr<Objective> task,
                                                    at::Device device, FileSystem& fs,
                                                    Collectives& gang);

// Also freezes the parameters of frozen groups: they require no gradient from then on. START_FAILED
// when the groups do not fit the model's parameters.
absl::StatusOr<std::unique_ptr<Optimizer>> BuildOptimizer(const trainer_spec::Optimizer& spec,
                                                          const Model& model);

// Null without `train.ema`. Call after BuildOptimizer: frozen parameters are not averaged.
std::unique_ptr<Ema> BuildEma(const trainer_spec::Ema& spec, const Model& model);

// Null without `train.prune`. Call after BuildOptimizer: frozen parameters are not pruned.
// START_FAILED when it does not fit the model, or the run's steps.
absl::StatusOr<std::unique_ptr<Pruner>> BuildPruner(const trainer_spec::Prune& spec,
                                                    const Model& model, const Ema* ema,
                                                    int64_t total_steps);

// Null without `train.weights`.
std::unique_ptr<Transfer> BuildTransfer(const trainer_spec::Train& train, FileSystem& fs);

Sampler BuildSampler(const trainer_spec::Train& train, const Dataset& dataset);

// Where a rank runs: on `device`, one of `world_size`, of which `ranks_here` share its machine.
struct RankPlace {
  at::Device device = at::kCPU;
  uint32_t world_size = 1;
  uint32_t ranks_here = 1;
};

// Threads that make samples of data in files where the job does not say how many: one for each CPU
// of the rank, of which its process sees so many. The rank has these to itself (per_rank.cpus), or
// shares the machine with those that run here.
int ThreadsFor(int cpus_seen, uint32_t cpus_given, uint32_t ranks_here);

// `dataset` and `augmenter` (may be null) must outlive it.
std::unique_ptr<Loader> BuildLoader(const trainer_spec::JobSpec& spec, const Dataset& dataset,
                                    const Augmenter* augmenter, const RankPlace& place);

// Keeps what the loader makes ahead within train.data.memory_limit. START_FAILED, with the numbers,
// where that is too little for one batch. `world_size` is that of the gang.
absl::Status LimitDataMemory(const trainer_spec::Data& data, const Recipe& recipe,
                             uint32_t world_size, Loader& loader);

// The learning rate of a run of `total_steps`.
ScheduleConfig BuildSchedule(const trainer_spec::Train& train, int64_t total_steps);

// How long data may keep a step waiting. Less than what the other ranks' collectives take, and than
// whoever looks for hung ranks waits: a server that is down is told as what it is.
absl::Duration DataTimeoutOf(const trainer_spec::JobSpec& spec);

// `world_size` is that of the gang.
Recipe BuildRecipe(const trainer_spec::JobSpec& spec, const Sampler& sampler, uint32_t world_size);

}  // namespace muster::worker
