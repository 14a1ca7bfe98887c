// What every client of ours keeps to: how much a peer may send, and how long it may be silent.
#pragma once

#include <cstddef>

#include "absl/time/time.h"

namespace muster {

// A larger message fails its call with RESOURCE_EXHAUSTED.
inline constexpr size_t kMaxMessageBytes = 16 << 20;

// A status' message is at most so long: it travels in HTTP/2 headers, which every peer bounds.
inline constexpr size_t kMaxStatusMessageBytes = 8192;

// Of all headers of one block. A percent-encoded byte of a status' message takes three.
inline constexpr size_t kMaxHeaderBytes = 3 * kMaxStatusMessageBytes + 8192;

// One attempt to connect may take so long before it counts as failed.
inline constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

// A peer that has been silent for so long is pinged, and is gone when it does not answer in time.
inline constexpr absl::Duration kPingInterval = absl::Seconds(20);
inline constexpr absl::Duration kPingTimeout = absl::Seconds(10);

}  // namespace muster
