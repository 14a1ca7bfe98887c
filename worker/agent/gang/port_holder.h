// A free TCP port that stays free for one gang.
//
// The port is bound here, with SO_REUSEADDR, and never listened on. While it is bound the kernel
// gives it to nobody who asks for any port, so that two gangs on a host never share one; yet
// whoever binds it by its number with SO_REUSEADDR, as torch, gRPC, libuv and most servers do, gets
// it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

struct HeldPort {
  UniqueFd socket;  // the port is held as long as this is open
  uint16_t port = 0;
};

// RESOURCE_EXHAUSTED: no descriptor or no port is left.
absl::StatusOr<HeldPort> HoldPort();

}  // namespace muster::worker
