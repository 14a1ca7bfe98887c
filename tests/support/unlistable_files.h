// The files of this machine as S3 shows them to who may read objects and not list them: what is not
// there is denied, and so is every folder's list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/object_store/cache/forwarding_file_system.h"

namespace muster::testing {

class UnlistableFiles final : public ForwardingFileSystem {
 public:
  absl::StatusOr<bool> Exists(const std::string& path) override {
    const absl::StatusOr<uint64_t> size = FileSize(path);
    if (!size.ok()) return size.status();
    return true;
  }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override {
    return absl::PermissionDeniedError(absl::StrCat(directory, ": HTTP 403"));
  }

 private:
  absl::StatusOr<FileSystem*> Of(const std::string& path) override {
    if (!PosixFileSystem().FileSize(path).ok())
      return absl::PermissionDeniedError(absl::StrCat(path, ": HTTP 403"));
    return &PosixFileSystem();
  }
};

}  // namespace muster::testing
