// The training loop: the file to read first. It tells a run from its first step to its result;
// everything else has a file of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/train/artifacts/artifact.h"
#include "worker/train/checkpoints.h"
#include "worker/train/run/run_host.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

struct TrainResult {
  bool stopped = false;  // it left because some rank was asked to
  std::map<std::string, double> results;
};

// Trains from wherever the newest checkpoint stands to the end, or to an agreed stop. All ranks of
// the gang call it; the checkpoints are those of the same trainer, the artifacts are rank 0's.
// Fails with a status that carries its failure class (failure.h); nothing is thrown.
absl::StatusOr<TrainResult> Train(const Trainer& trainer, Checkpoints& checkpoints, RunHost& host,
                                  const std::vector<Artifact*>& artifacts = {});

}  // namespace muster::worker
