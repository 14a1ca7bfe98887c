// Files whose content is named by a version, so that readers of one file never mix two contents.
// Object stores give one; caches key by it. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

struct FileVersion {
  uint64_t size_bytes = 0;
  // Names this content: another content of the path has another tag. Empty: the store names none,
  // so nothing may be kept of it.
  std::string tag;

  bool operator==(const FileVersion&) const = default;
};

class VersionedFiles {
 public:
  virtual ~VersionedFiles() = default;
  // The version that reads of this path are held to. Errors as in file_system.h.
  virtual absl::StatusOr<FileVersion> Version(const std::string& path) = 0;
  // Reads exactly that version, as FileSystem::ReadAt does. FAILED_PRECONDITION when the path has
  // another content by now.
  virtual absl::StatusOr<uint64_t> ReadVersion(const std::string& path, const FileVersion& version,
                                               uint64_t offset, char* buffer,
                                               uint64_t buffer_bytes) = 0;
};

}  // namespace muster
