// The controller's token: made once, kept in <data-dir>/token, read by local clients.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::controller {

// Reads the token, or makes one of 32 random bytes (as hex, mode 0600) when the file is not there.
// INVALID_ARGUMENT, PERMISSION_DENIED: what is there is no token file, or others may read it. Else
// as FileSystem.
absl::StatusOr<std::string> LoadOrMakeToken(FileSystem& fs, const std::string& path);

}  // namespace muster::controller
