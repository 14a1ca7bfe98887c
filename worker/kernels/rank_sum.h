// Sums over ranks, always in the order of the ranks: every rank gets the same bits, however the
// numbers were cut into pieces.
//
// Used by SharedMemoryBackend and TwoLevelBackend. Half-precision numbers are added as floats and
// rounded once. Pure.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace muster::worker {

// Can numbers of this type be added?
bool CanSum(c10::ScalarType type);

// out[i] = scale * (terms[0][i] + terms[1][i] + ...), `count` numbers of a type that CanSum. `out`
// may be one of the terms, and overlaps none otherwise. Whole numbers know only scale 1.
void SumRanks(c10::ScalarType type, const std::vector<const void*>& terms, double scale,
              int64_t count, void* out);

}  // namespace muster::worker
