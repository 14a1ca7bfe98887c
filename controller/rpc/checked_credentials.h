// gRPC server credentials for plain connections whose calls are asked for their token as soon as
// their headers are there: of a stranger no message is read, and no thread or handler learns of it.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::controller {

// Whether the call may go on: `path` is "/package.Service/Method", `authorization` what the caller
// sent under that key, empty: nothing. Not OK: the call ends with that. Any thread; must not block.
using CallCheck =
    std::function<absl::Status(absl::string_view path, absl::string_view authorization)>;

std::shared_ptr<grpc::ServerCredentials> MakeCheckedCredentials(CallCheck check);

}  // namespace muster::controller
