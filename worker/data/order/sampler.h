// Which sample stands where: a pure function of (seed, position), so that any rank, any number of
// ranks and any resume agree without talking.
//
// Training consumes positions 0, 1, 2, ...; step s of batch size G takes [sG, (s+1)G). Position p
// is in epoch p / N, where it shows sample cipher(seed, epoch, p mod N): a keyed Feistel
// permutation with cycle walking, without memory. So a batch may reach over the end of an epoch
// (the tail is carried over), and every sample comes exactly once an epoch, whatever G and the
// ranks. With a window (window_order.h) it does so as well; with weights (mixture_order.h) an epoch
// is as many positions as there are samples, and a sample may come more often or not at all.
// Rank r of W takes places [floor(rG/W), floor((r+1)G/W)) of each batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/data/base/epoch_place.h"
#include "worker/data/order/mixture_order.h"
#include "worker/data/order/permutation.h"
#include "worker/data/order/window_order.h"

namespace muster::worker {

// Places [begin, end).
struct PlaceRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};
// Of `count` places those that fall to one part of so many, such as a rank of its world. Requires
// part < parts.
PlaceRange EvenPart(uint64_t count, uint32_t part, uint32_t parts);

// How training differs from taking all samples at random.
struct SampleOrder {
  // Take samples from windows of so many, in the order of storage; 0, or as many as there are: from
  // all.
  uint64_t window = 0;
  // Sources whose samples follow each other in the training set, and their weights. Without
  // weights they are as one.
  std::vector<uint64_t> source_sizes;
  std::vector<MixturePhase> phases;
};

class Sampler {
 public:
  // `samples` in the training set and samples in a global batch: both at least 1.
  Sampler(uint64_t samples, uint64_t batch_size, uint64_t seed, const SampleOrder& order = {});

  // Steps that make up `epochs` (above 0, not whole ones too); the last may be short, see Limit.
  uint64_t StepsFor(double epochs) const;

  // Consume no position at or past round(epochs x samples): the last batch of a run that is
  // counted in epochs is short, so that without weights each sample comes exactly `epochs` times.
  // Runs that are counted in steps have no limit.
  void LimitToEpochs(double epochs);

  // Samples of step `step` over all ranks: batch_size but for a short last batch.
  uint64_t GlobalBatch(uint64_t step) const;

  // Ids of the samples of `step` for a rank, in order; with a window their places in storage, which
  // the data set knows (SampleSource::IdInStorage). Empty when a short last batch has fewer samples
  // than there are ranks.
  std::vector<int64_t> Ids(uint64_t step, uint32_t rank, uint32_t world) const;
  // Likewise for some places of the global batch.
  std::vector<int64_t> Ids(uint64_t step, const PlaceRange& places) const;

  // Where the sample at this place of the step's global batch stands.
  EpochPlace PlaceOf(uint64_t step, uint64_t place) const;

  // Epochs consumed when `step` steps are done.
  double EpochAt(uint64_t step) const;

  // Whether it gives places in storage.
  bool in_windows() const { return steps_in_window_ > 0; }
  // So many steps later about a window on is reached: what is fetched from afar then is there in
  // time. 0 without a window.
  uint64_t steps_in_window() const { return steps_in_window_; }

  uint64_t samples() const { return samples_; }
  uint64_t batch_size() const { return batch_size_; }

 private:
  uint64_t PositionOf(uint64_t step) const;

  uint64_t samples_;
  uint64_t batch_size_;
  uint64_t seed_;
  uint64_t limit_ = UINT64_MAX;
  uint64_t steps_in_window_ = 0;
  std::optional<WindowOrder> windows_;
  std::optional<MixtureOrder> mixture_;
};

}  // namespace muster::worker
