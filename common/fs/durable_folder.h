// Makes a folder that outlives a power cut: it and each parent that was made for it is synced into
// the folder that holds it. Also when it was there already, since whoever made it may not have
// waited for the disk. Errors as in file_system.h.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster {

absl::Status MakeDurableFolder(FileSystem& fs, const std::string& path);

}  // namespace muster
