// One page of a daemon on this machine over HTTP.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster::cli {

// `url`: http://127.0.0.1:PORT/PATH, of a local Muster's own record. At most 4 MiB, within 2 s.
// INVALID_ARGUMENT: another kind of address; UNAVAILABLE: nobody answers, or not with 200.
absl::StatusOr<std::string> ReadLoopbackPage(const std::string& url);

}  // namespace muster::cli
