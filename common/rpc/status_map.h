// The one map between absl::Status and grpc::Status. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>

#include "absl/status/status.h"

namespace muster {

// A longer message is cut here, at a character's border, and ends in "...": a status travels in
// HTTP/2 headers, which every peer bounds. MakeChannel accepts headers of this size even when each
// byte is percent-encoded.
inline constexpr size_t kMaxStatusMessageBytes = 8192;

// The codes are the same on both sides. Payloads are dropped.
grpc::Status ToGrpc(const absl::Status& status);

// A code that absl does not know becomes UNKNOWN.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace muster
