// The training loop: the file to read first. It tells a run from its first step to its result;
// everything else has a file of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "worker/data/loader.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/optim/optimizer.h"
#include "worker/train/artifacts/artifact.h"
#include "worker/train/checkpoints.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_supervisor.h"
#include "worker/train/step/objective.h"

namespace muster::worker {

// What a run is made of. All must outlive it.
struct TrainParts {
  const Loader& loader;
  Model& model;
  const Objective& objective;
  Optimizer& optimizer;
  Collectives& gang;
  Checkpoints& checkpoints;
  RunSupervisor& supervisor;
  c10::Device device;
  Ema* ema = nullptr;                     // averages the weights; may be none
  const Transfer* transfer = nullptr;     // what a fresh run begins with; may be none
  std::vector<Artifact*> artifacts = {};  // of rank 0
  Pruner* pruner = nullptr;               // sets weights to zero; may be none
};

struct TrainResult {
  bool stopped = false;  // it left because some rank was asked to
  std::map<std::string, double> results;
};

// Trains from wherever the newest checkpoint stands to the end, or to an agreed stop. All ranks of
// the gang call it. Fails with a status that carries its failure class (failure.h); nothing is
// thrown.
absl::StatusOr<TrainResult> Train(const Recipe& recipe, const TrainParts& parts);

}  // namespace muster::worker
