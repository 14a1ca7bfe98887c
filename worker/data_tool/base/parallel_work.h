// The same work for many numbered things, by several threads.
//
// Used by the commands that read every sample. Whatever the threads, each number is done once.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace muster::worker {

// Cores that this process may use.
int AvailableCores();

// Calls work(thread, number) for each number below `count`, `thread` being below `threads`, and no
// two calls of one thread at a time. The first error ends it, as does an interrupt (CANCELLED);
// calls that run are waited for. `threads` 1: on the caller's thread, in order.
absl::Status DoInParallel(int threads, uint64_t count,
                          absl::FunctionRef<absl::Status(int thread, uint64_t number)> work);

}  // namespace muster::worker
