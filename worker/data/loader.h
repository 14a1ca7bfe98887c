// Batches for one rank: which samples a step has (sampler.h), what the model is given of each
// (transform.h), and pairs of them mixed. Any thread may call, and BatchQueue's does; the dataset
// must outlive the loader.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/data/augment/augment.h"
#include "worker/data/base/dataset.h"
#include "worker/data/sampler.h"
#include "worker/data/transform.h"

namespace muster::worker {

struct Batch {
  // Of n samples: float32 [n, ...shape], or tokens int64 [n, T].
  at::Tensor inputs;
  // int64 [n], or [n, T] for tokens; float32 [n, classes] when mixed, or to regress.
  at::Tensor targets;
  // Samples of this rank that count, and of all ranks. `count` is n, but 0 when a short last batch
  // has nothing for this rank: then some other samples stand in, so that the rank can take part in
  // every collective, and its loss must have weight 0.
  int64_t count = 0;
  int64_t global_count = 0;
  std::vector<int64_t> ids = {};  // of the n samples, in their split
};

class Loader {
 public:
  // `augmenter` (may be null) must outlive the loader; it wants pictures with a pixel scale.
  Loader(const Dataset& dataset, const Sampler& sampler, const Augmenter* augmenter = nullptr)
      : dataset_(dataset),
        sampler_(sampler),
        augmenter_(augmenter),
        transform_(dataset, augmenter) {}

  // The batch of a training step. Requires rank < world and a step before the sampler's limit. The
  // gradient of the global batch's mean is the mean over ranks of the gradients of
  // (rank's mean loss) x count x world / global_count.
  Batch TrainBatch(uint64_t step, uint32_t rank, uint32_t world) const;

  // Evaluation: each rank takes its contiguous shard of the split, in batches of at most
  // `batch_size`; every sample exactly once over all ranks. EvalBatches may differ between ranks
  // and be 0; `index` counts from 0.
  int64_t EvalBatches(Split split, int64_t batch_size, uint32_t rank, uint32_t world) const;
  Batch EvalBatch(Split split, int64_t batch_size, int64_t index, uint32_t rank,
                  uint32_t world) const;

  // How many training batches are worth making ahead of their step (BatchQueue). None that are only
  // copied: to hand one over between threads takes longer.
  int64_t batches_ahead() const { return transform_.only_copies() ? 0 : 1; }

  const Dataset& dataset() const { return dataset_; }
  const Sampler& sampler() const { return sampler_; }

 private:
  const Dataset& dataset_;
  Sampler sampler_;
  const Augmenter* augmenter_;
  const Transform transform_;
};

}  // namespace muster::worker
