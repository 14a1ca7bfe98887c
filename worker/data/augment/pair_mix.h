// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019) of two samples with each other. Pure, on
// floats.
//
// Used by the loader, which draws once for each global batch and mixes its places 0 and 1, 2 and 3,
// ...; the last of an odd number stays as it is.
#pragma once

#include <cstdint>

#include "worker/data/augment/picture.h"
#include "worker/data/base/random_stream.h"

namespace muster::worker {

// What was drawn for a batch.
struct PairMix {
  // Of a sample's own class, and of its own input where that is blended; the rest is its
  // partner's. A multiple of 2^-24, so that both shares are exact floats.
  float share = 1;
  bool pastes = false;  // the window of the other, instead of blending
  Window window = {};

  float rest() const { return 1.0f - share; }
};

// `mixup` and `cutmix` are parameters of the Beta distribution, 0: off; with both, one of them is
// drawn. Requires one above 0, and for cutmix a size.
PairMix DrawPairMix(double mixup, double cutmix, int64_t height, int64_t width,
                    RandomStream& random);

// Requires two pictures of the size that was drawn for; their values need not be pixels.
void MixPair(const PairMix& mix, Picture one, Picture other);

}  // namespace muster::worker
