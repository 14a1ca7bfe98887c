// The bearer token that every call of JobService and WorkerService carries: reading it, sending it,
// checking it. Never log one. Any thread.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Reads a token from the first line of a file. NOT_FOUND: no such file. PERMISSION_DENIED: it
// cannot be read, or its group or others may read or write it. INVALID_ARGUMENT: empty, longer than
// 256 bytes, or not printable ASCII.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// OK when `token` can be sent as it is: 1 to 256 printable ASCII bytes. INVALID_ARGUMENT otherwise;
// does not repeat it.
absl::Status CheckTokenText(absl::string_view token);

// Adds `authorization: Bearer <token>`; nothing when the token is empty. Requires
// CheckTokenText(token) for others.
void AddToken(grpc::ClientContext& context, absl::string_view token);

// OK when the caller sent `token`; UNAUTHENTICATED otherwise, without saying what was wrong with
// it. The time it takes does not depend on where the two differ.
absl::Status CheckToken(const grpc::ServerContextBase& context, absl::string_view token);

}  // namespace muster
