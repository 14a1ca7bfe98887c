// Which folder a local Muster is under.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/session/host.h"

namespace muster::cli {

// From the root on.
std::string Absolute(const std::string& path);

// The flag, else MUSTER_LOCAL_DIR, else below XDG_STATE_HOME or HOME. INVALID_ARGUMENT: none is
// set.
absl::StatusOr<std::string> LocalDir(const std::string& flag, const Host& host);

}  // namespace muster::cli
