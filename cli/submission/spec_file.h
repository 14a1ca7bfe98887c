// A job's spec where people keep it: in a file, or on standard input. Shared by the verbs that take
// -f.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"

namespace muster::cli {

// The folder that relative paths in the spec start from; `-` is standard input.
std::string BaseDirOfSpec(const std::string& file);

// The text of the file, or of standard input for `-`. INVALID_ARGUMENT when it cannot be read or is
// too long.
absl::StatusOr<std::string> ReadSpecText(const std::string& file, Session& session);

}  // namespace muster::cli
