#include "worker/data/order/window_order.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "worker/data/order/permutation.h"

namespace muster::worker {
namespace {

// Purpose numbers of DeriveSeed: part of the result, never changed.
constexpr uint64_t kBlocksPurpose = 0x626c6f636b73;  // "blocks"
constexpr uint64_t kWindowPurpose = 0x77696e646f77;  // "window"

// Of the positions below `end`, those at places below `place` of their batches.
uint64_t PositionsBelow(uint64_t end, uint64_t place, uint64_t batch_size) {
  return end / batch_size * place + std::min(end % batch_size, place);
}

}  // namespace

WindowOrder::WindowOrder(uint64_t samples, uint64_t batch_size, uint64_t window, uint64_t seed)
    : samples_(samples),
      batch_size_(batch_size),
      block_((window + kBlocksPerWindow - 1) / kBlocksPerWindow),
      seed_(seed) {
  MUSTER_CHECK(samples > 0 && batch_size > 0 && window > 0, "an order has samples");
}

uint64_t WindowOrder::At(uint64_t position) const {
  const uint64_t epoch = position / samples_;
  const uint64_t epoch_begin = epoch * samples_;
  const uint64_t number = (position - epoch_begin) / window();
  const uint64_t begin = epoch_begin + number * window();
  const uint64_t end = std::min(begin + window(), epoch_begin + samples_);
  const uint64_t place = position % batch_size_;
  // The window's positions at lower places of their batches, and at this one.
  const auto in_window_below = [&](uint64_t below) {
    return PositionsBelow(end, below, batch_size_) - PositionsBelow(begin, below, batch_size_);
  };
  const uint64_t lower = in_window_below(place);
  const uint64_t here = in_window_below(place + 1) - lower;
  // Positions at one place are a batch apart: this is the nth of them in the window.
  const uint64_t nth = (position - begin) / batch_size_;
  const uint64_t key = DeriveSeed(DeriveSeed(seed_, kWindowPurpose, epoch), number, place);
  return InStorage(epoch, begin - epoch_begin + lower + Permute(key, 0, here, nth));
}

// Whole blocks in the epoch's order, and what is left of the set at the end.
uint64_t WindowOrder::InStorage(uint64_t epoch, uint64_t place) const {
  const uint64_t blocks = samples_ / block_;
  const uint64_t block = place / block_;
  if (block >= blocks) return place;
  return Permute(DeriveSeed(seed_, kBlocksPurpose), epoch, blocks, block) * block_ + place % block_;
}

}  // namespace muster::worker
