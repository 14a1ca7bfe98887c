// Packs a folder into an archive (FolderEntry in upload_service.proto) that is the same whenever
// the folder is: sorted by path, without times and owners.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster {

struct PackedFolder {
  std::string archive;
  std::string sha256;  // of it, in hex
  size_t entries = 0;
};

// Reads `.musterignore` in the folder. INVALID_ARGUMENT naming what is wrong: no folder, nothing in
// it, too large, a link that leaves it, something that is neither file, folder nor link.
// UNAVAILABLE, PERMISSION_DENIED: a file cannot be read.
absl::StatusOr<PackedFolder> PackFolder(const std::string& folder);

}  // namespace muster
