// A FileSystem in front of others: each call goes to the one that its path belongs to. Derive from
// it, and override what is to be done in another way. Thread-safe where Of is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster {

class ForwardingFileSystem : public FileSystem {
 public:
  using FileSystem::CreateExclusive;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override;
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override;
  absl::StatusOr<uint64_t> ReadUncached(const std::string& path, uint64_t offset, char* buffer,
                                        uint64_t buffer_bytes) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  absl::StatusOr<bool> Exists(const std::string& path) override;
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override;
  absl::Status MakeDirectories(const std::string& path) override;
  // By `from`.
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;

 protected:
  // The one that has the path; an error is that of the call.
  virtual absl::StatusOr<FileSystem*> Of(const std::string& path) = 0;
};

}  // namespace muster
