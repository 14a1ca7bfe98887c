// Waiting for a descriptor, until somebody interrupts or time is up.
#pragma once

#include <poll.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace muster {

// Waits until `fd` is ready for one of `events` (POLLIN, POLLOUT), or in error, and returns for
// what. `deadline` counts since boot (RealClock); one that has passed still looks once. CANCELLED:
// `wake` is readable. DEADLINE_EXCEEDED: `fd` was not ready in time.
absl::StatusOr<short> AwaitReady(const UniqueFd& fd, short events, const UniqueFd& wake,
                                 absl::Duration deadline);

}  // namespace muster
