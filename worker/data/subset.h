// A dataset of which only some samples are used, always the same ones.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/data/base/dataset.h"

namespace muster::worker {

// `samples` of a split of `whole`, the first of a shuffle that is always the same; the other splits
// as they are. `whole` itself when the split has no more than that. Requires samples > 0.
std::unique_ptr<Dataset> KeepSubset(std::unique_ptr<Dataset> whole, Split split, int64_t samples);

}  // namespace muster::worker
