// Batches for one rank: which samples a step has (sampler.h), what the model is given of each
// (transform.h), and pairs of them mixed. Any thread may call, and BatchQueue's do; the dataset
// must outlive the loader.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/ahead_plan.h"
#include "worker/data/augment/augment.h"
#include "worker/data/base/dataset.h"
#include "worker/data/batch_memory.h"
#include "worker/data/broken_samples.h"
#include "worker/data/order/sampler.h"
#include "worker/data/transform.h"

namespace muster::worker {

struct Batch {
  // Of n samples: float32 [n, ...shape], or tokens int64 [n, T]; or uint8 pixels [n, ...shape],
  // where `pixels` is not null: then they are still to be scaled (model_inputs.h).
  at::Tensor inputs;
  // int64 [n], or [n, T] for tokens; float32 [n, classes] when mixed, or to regress.
  at::Tensor targets;
  // Samples of this rank that count, and of all ranks. `count` is n, but 0 when a short last batch
  // has nothing for this rank: then some other samples stand in, so that the rank can take part in
  // every collective, and its loss must have weight 0.
  int64_t count = 0;
  int64_t global_count = 0;
  std::vector<int64_t> ids = {};       // of the n samples, in their split
  StageSeconds busy = {};              // what making it took
  const PixelScale* pixels = nullptr;  // the dataset's, of inputs that are pixels
};

// A batch whose samples are still to be made: in any order, by any threads, each of them once. What
// it came from must outlive it.
class PendingBatch {
 public:
  virtual ~PendingBatch() = default;

  virtual int64_t samples() const = 0;
  // Makes the samples [begin, end) of them. An error names the sample that cannot be read.
  virtual absl::Status Make(int64_t begin, int64_t end, SampleScratch& scratch) = 0;
  // The batch: once, when all samples are made. Its inputs may be pixels.
  virtual Batch Finish() = 0;
  // A sample that is just being made, by its name; empty: none, or nobody could wait for it.
  virtual std::string InTheMaking() const { return ""; }
};

struct LoaderOptions {
  int threads = 1;  // that may make samples beside the training thread
  // So many samples may be broken. For each the next one stands in, by number, that is whole: the
  // same on every rank.
  uint64_t broken_limit = 0;
  // Batches lie in memory that a GPU copies from by itself.
  bool pinned = false;
  // Compressed pictures that are only cropped and flipped stay pixels, a quarter of the bytes,
  // which are scaled where the model is (model_inputs.h).
  bool leave_pixels = false;
  // What reading takes of memory: in all, and of each thread that makes samples.
  int64_t reading_bytes = 0;
  int64_t thread_bytes = 0;
};

class Loader {
 public:
  // `augmenter` (may be null) must outlive the loader; it wants pictures with a pixel scale.
  Loader(const Dataset& dataset, const Sampler& sampler, const Augmenter* augmenter = nullptr,
         const LoaderOptions& options = {})
      : dataset_(dataset),
        sampler_(sampler),
        augmenter_(augmenter),
        options_(options),
        transform_(dataset, augmenter, options.leave_pixels),
        broken_(options.broken_limit),
        memory_(options.pinned),
        ahead_(WorthMakingAhead()) {}

  // The batch of a training step. Requires rank < world and a step before the sampler's limit. The
  // gradient of the global batch's mean is the mean over ranks of the gradients of
  // (rank's mean loss) x count x world / global_count.
  std::unique_ptr<PendingBatch> BeginTrainBatch(uint64_t step, uint32_t rank, uint32_t world) const;
  // The same, made by the caller's thread, with inputs for the model.
  absl::StatusOr<Batch> TrainBatch(uint64_t step, uint32_t rank, uint32_t world) const;

  // For a rank that has no batch for a step of which nothing comes (TrainStep): zeros, enough for
  // so many micro-batches.
  Batch StandIns(uint64_t step, int64_t parts) const;

  // Evaluation: each rank takes its contiguous shard of the split, in batches of at most
  // `batch_size`; every sample exactly once over all ranks. EvalBatches may differ between ranks
  // and be 0; `index` counts from 0.
  int64_t EvalBatches(Split split, int64_t batch_size, uint32_t rank, uint32_t world) const;
  std::unique_ptr<PendingBatch> BeginEvalBatch(Split split, int64_t batch_size, int64_t index,
                                               uint32_t rank, uint32_t world) const;
  absl::StatusOr<Batch> EvalBatch(Split split, int64_t batch_size, int64_t index, uint32_t rank,
                                  uint32_t world) const;

  // How batches are worth making ahead, unless a limit said otherwise.
  const AheadPlan& ahead() const { return ahead_; }
  void SetAhead(const AheadPlan& ahead) { ahead_ = ahead; }
  // Of a rank whose batches have so many samples.
  DataNeeds Needs(int64_t batch_samples, int64_t evaluation_samples) const;
  // Of a sample in a batch, with its target.
  int64_t sample_bytes() const;
  // Of a sample as the model takes it: its scaled copy, where batches have pixels; else 0.
  int64_t scaled_sample_bytes() const;

  const Dataset& dataset() const { return dataset_; }
  const Sampler& sampler() const { return sampler_; }

 private:
  std::vector<int64_t> IdsAt(uint64_t step, const PlaceRange& places) const;
  AheadPlan WorthMakingAhead() const;

  const Dataset& dataset_;
  Sampler sampler_;
  const Augmenter* augmenter_;
  const LoaderOptions options_;
  const Transform transform_;
  mutable BrokenSamples broken_;
  mutable BatchMemory memory_;
  AheadPlan ahead_;
};

}  // namespace muster::worker
