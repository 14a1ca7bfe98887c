// How good the model is on a split: exact sums over all ranks, every sample once.
#pragma once

#include <cstdint>

#include "worker/data/loader.h"
#include "worker/dist/collectives.h"
#include "worker/models/model.h"
#include "worker/train/recipe.h"

namespace muster::worker {

struct Evaluation {
  int64_t samples = 0;
  int64_t correct = 0;
  double loss = 0;  // mean cross-entropy, without label smoothing

  double accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
};

// All ranks call it. First makes the buffers of rank 0 everybody's: batch norm's running statistics
// are those of rank 0's shards, as in PyTorch's DDP, and nothing reads them in between. Ranks may
// hold unequal shards or none; they meet in one sum at the end. Leaves the model in training mode.
// Throws what torch throws.
Evaluation Evaluate(const Recipe& recipe, const Loader& loader, Split split, Model& model,
                    Collectives& gang, at::Device device);

// Makes rank 0's buffers everybody's. All ranks call it, before anything that reads or saves them.
void ShareBuffers(Model& model, Collectives& gang);

}  // namespace muster::worker
