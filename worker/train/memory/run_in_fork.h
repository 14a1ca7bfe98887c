// Runs something in a copy of this process, to learn a number from it: this one keeps its memory as
// it was.
//
// Used by the memory estimate. Any thread, also where there are others: the copy has this one
// alone, so that `work` must wait for none of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/time/time.h"

namespace muster::worker {

// What `work` returned in the copy, which ends then, whatever it still held. Absent where the copy
// could not be made or died, or did not answer within `limit`.
std::optional<int64_t> RunInFork(const std::function<int64_t()>& work, absl::Duration limit);

}  // namespace muster::worker
