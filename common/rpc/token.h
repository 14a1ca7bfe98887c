// The bearer token that every call of JobService and WorkerService carries: sending it and checking
// it. Never log one. Any thread.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Adds `authorization: Bearer <token>`; nothing when the token is empty. Requires
// CheckTokenText(token) (common/rpc/token_file.h) for others.
void AddToken(grpc::ClientContext& context, absl::string_view token);

// OK when the caller sent `token`; UNAUTHENTICATED otherwise, without saying what was wrong with
// it. The time it takes does not depend on where the two differ.
absl::Status CheckToken(const grpc::ServerContextBase& context, absl::string_view token);

// The same of what the caller sent as `authorization`.
absl::Status CheckAuthorization(absl::string_view authorization, absl::string_view token);

}  // namespace muster
