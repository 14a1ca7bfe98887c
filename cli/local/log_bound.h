// The bound of a log that one process appends to and nobody else opens for writing.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster::cli {

// A log longer than this begins anew; the last part of the old one is kept as "<log>.1".
inline constexpr uint64_t kMaxLogBytes = 16 << 20;

// Does that to a log whose process writes on, which needs O_APPEND. What it writes in the moment
// between the look and the cut is lost. OK when the log is short or not there. An error: it could
// not be read or cut, and is as it was; or the old part could not be kept, and is gone.
absl::Status BoundLog(FileSystem& fs, const std::string& path);

}  // namespace muster::cli
