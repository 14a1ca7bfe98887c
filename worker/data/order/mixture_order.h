// An order of training that takes samples of several sources by weights, which may change as
// training goes on (a curriculum).
//
// Each kBlock positions of a phase have exactly the phase's share of each source, in a random
// order. Each source is passed through in random orders of its own, pass after pass, at random or
// in windows (window_order.h): a sample comes again when all others of its source have come, but
// for those that lie in one block of positions.
//
// Used by the sampler. A pure function of the position; any thread may ask.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/data/order/window_order.h"

namespace muster::worker {

struct MixturePhase {
  uint64_t begin = 0;           // the first position that it holds for
  std::vector<double> weights;  // one for each source, 0 or more, not all of them 0
};

class MixtureOrder {
 public:
  // Shares are rounded to whole samples of so many; a weight above 0 is one at least.
  static constexpr uint64_t kBlock = 4096;

  // `sizes` of the sources, each at least 1. `window` in samples of a source; 0: none, and the same
  // for those that have no more. Requires phases that begin one after the other, the first of them
  // at 0.
  MixtureOrder(const std::vector<uint64_t>& sizes, const std::vector<MixturePhase>& phases,
               uint64_t window, uint64_t seed);

  // Of the sources' samples one after the other.
  uint64_t At(uint64_t position) const;

 private:
  struct Source {
    uint64_t begin = 0;  // its first sample, of all
    uint64_t size = 0;
    uint64_t seed = 0;
    std::optional<WindowOrder> windows;

    uint64_t Drawn(uint64_t number) const;
  };
  struct Phase {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<double> weights;
    std::vector<uint64_t> in_block;  // of each source, in a whole block
    std::vector<uint64_t> before;    // of each source, drawn in the phases before
  };
  const Phase& PhaseAt(uint64_t position) const;

  std::vector<Source> sources_;
  std::vector<Phase> phases_;
  uint64_t seed_;
};

}  // namespace muster::worker
