// Reads a secret: from a terminal without showing it, else a line of standard input.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/session/host.h"

namespace muster::cli {

// Without blanks around it. INVALID_ARGUMENT: nothing, or a line longer than any token. CANCELLED:
// Ctrl-C at the terminal.
absl::StatusOr<std::string> ReadSecret(Host& host, const std::string& prompt);

}  // namespace muster::cli
