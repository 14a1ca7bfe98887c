// Opens a TCP connection, bounded in time and interruptible.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace muster {

// Connects to HOST:PORT: a name, an IPv4 address, or an IPv6 address in brackets. Tries all that a
// name stands for, in the system's order, each for kConnectTimeout at most; names are looked up on
// a thread of their own, which outlives this call when it gives up. `deadline` counts since boot
// (RealClock). The connection does not block and does not wait to fill its packets (TCP_NODELAY).
// UNAVAILABLE: nobody listens there, or the name is unknown. DEADLINE_EXCEEDED: as it says.
// CANCELLED: `wake` became readable. INVALID_ARGUMENT: not of that form.
absl::StatusOr<UniqueFd> Dial(const std::string& address, const UniqueFd& wake,
                              absl::Duration deadline);

}  // namespace muster
