// Validation and test sets for data that bring none: a tenth each of the training set.
//
// Used by the sources whose samples are tensors. Pure.
#pragma once

#include <array>

#include "worker/data/base/dataset.h"

namespace muster::worker {

// Moves samples of the training set into each part that is not given: a tenth, by SplitMix64 of
// their places in the set as it was read, so the choice changes with nothing else. Requires a
// training set.
void HoldOutMissing(std::array<Dataset::Part, 3>& parts, const std::array<bool, 3>& given);

}  // namespace muster::worker
