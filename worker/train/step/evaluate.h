// How good the model is on a split: exact sums over all ranks, every sample once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/data/loader.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/train/run/run_host.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

struct Evaluation {
  int64_t samples = 0;
  double correct = 0;  // whole samples for classifiers; see Objective::Correct
  double loss = 0;     // the mean of Objective::EvaluationLoss
  // int64 [classes, classes]: how many samples of the row's class were taken for the column's. On
  // the CPU; undefined unless it was asked for.
  at::Tensor confusion;
  // Of Objective::CorrectInTopFive; absent when the objective knows none.
  std::optional<double> top5_accuracy;
  // With a stop: some rank was asked to, all have left off, and the numbers above say nothing.
  RequestedStop requested;

  double accuracy() const { return samples == 0 ? 0 : correct / static_cast<double>(samples); }
};

struct EvaluationOptions {
  bool confusion = false;  // count it, where samples have a class
  // Asked between batches for what this rank was asked to do; may be none. It also learns thereby
  // that the evaluation goes on.
  std::function<RequestedStop()> requested = nullptr;
};

// All ranks call it. First makes the buffers of rank 0 everybody's: batch norm's running statistics
// are those of rank 0's shards, as in PyTorch's DDP, and nothing reads them in between. Ranks may
// hold unequal shards or none; they meet in one sum at the end, and about every two seconds to
// agree whether they go on. Leaves the model in training mode. Nothing is thrown: fails as
// torch_guard.h says.
absl::StatusOr<Evaluation> Evaluate(Split split, const Trainer& trainer,
                                    const EvaluationOptions& options = {});

// Makes rank 0's buffers everybody's. All ranks call it, before anything that reads or saves them.
// Throws what the collectives throw.
void ShareBuffers(Model& model, Collectives& gang);

}  // namespace muster::worker
