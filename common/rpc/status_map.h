// The one map between absl::Status and grpc::Status. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace muster {

// The codes are the same on both sides. Payloads are dropped; a message longer than
// kMaxStatusMessageBytes (common/rpc/peer_limits.h) is cut, at a character's border, and ends in
// "...".
grpc::Status ToGrpc(const absl::Status& status);

// A code that absl does not know becomes UNKNOWN.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace muster
