// All that one rank of a run is made of, but its agent and its checkpoints.
//
// Used by rank_program.cc for the run itself and by bench.cc for the checks before one: both set up
// the same things in the same order, so that what would end a run at its start ends its check with
// the same words. Nothing here decides; compose.h makes the single parts. All ranks call each
// function.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/data/loader.h"
#include "worker/dist/gang.h"
#include "worker/train/step/trainer.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {

// Members are torn down in the reverse order of their making.
struct RankParts {
  c10::Device device = c10::kCPU;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Augmenter> augmenter;  // null without one, as the further three
  std::unique_ptr<Loader> loader;
  Recipe recipe;
  std::unique_ptr<Gang> gang;
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Ema> ema;
  std::unique_ptr<Pruner> pruner;
  std::unique_ptr<Transfer> transfer;
  std::unique_ptr<Objective> objective;
  std::string teacher_fingerprint;  // empty without a teacher

  // Once all are made: with the recipe as it is now.
  Trainer trainer() const {
    return {recipe,         *loader,         *model,    *objective,   *gang,         device,
            strategy.get(), optimizer.get(), ema.get(), pruner.get(), transfer.get()};
  }
};

// What a rank can make before it meets the others: all but the gang, the strategy, the objective
// and what that completes. START_FAILED or DATA_ERROR as compose.h says, and where this program
// cannot compute on the device; CANCELLED when `host` says to stop.
absl::StatusOr<RankParts> BuildParts(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                     const RankPlace& place, const LoadHost& host = {});

// The rest, once there is a gang. START_FAILED as compose.h says. `fs` must outlive the parts.
absl::Status JoinParts(const trainer_spec::JobSpec& spec, FileSystem& fs,
                       std::unique_ptr<Gang> gang, RankParts& parts);

}  // namespace muster::worker
