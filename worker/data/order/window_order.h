// An order of training for data that are slow to read at random: samples come at random from a
// window that passes over the set, and a window is made of pieces that each lie together.
//
// Places are counted in the order of storage. An epoch's windows take the set's blocks, which are
// runs of places, in a random order; each window has kBlocksPerWindow of them. Each place of
// the global batch draws at random from a connected part of the window that is its own. A rank has
// neighbouring places of every batch, so it reads one part of the window, and all ranks together
// read each sample once, however many they are.
//
// Used by the sampler. A pure function of the position, without memory; any thread may ask.
#pragma once

#include <cstdint>

namespace muster::worker {

class WindowOrder {
 public:
  static constexpr uint64_t kBlocksPerWindow = 128;

  // `window` in samples is rounded to whole blocks; one of the set's size or more is no window, but
  // still an order. Requires samples, batch_size and window of at least 1.
  WindowOrder(uint64_t samples, uint64_t batch_size, uint64_t window, uint64_t seed);

  // The place in storage of the sample at a position of training.
  uint64_t At(uint64_t position) const;

  // Samples in each window but an epoch's last.
  uint64_t window() const { return block_ * kBlocksPerWindow; }

 private:
  uint64_t InStorage(uint64_t epoch, uint64_t place) const;

  uint64_t samples_;
  uint64_t batch_size_;
  uint64_t block_;  // samples in a block
  uint64_t seed_;
};

}  // namespace muster::worker
