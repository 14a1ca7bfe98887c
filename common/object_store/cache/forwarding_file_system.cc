#include "common/object_store/cache/forwarding_file_system.h"

#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<std::unique_ptr<WritableFile>> ForwardingFileSystem::CreateExclusive(
    const std::string& path, uint32_t mode) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->CreateExclusive(path, mode);
}

absl::StatusOr<std::string> ForwardingFileSystem::ReadFile(const std::string& path,
                                                           uint64_t max_bytes) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->ReadFile(path, max_bytes);
}

absl::StatusOr<uint64_t> ForwardingFileSystem::ReadAt(const std::string& path, uint64_t offset,
                                                      char* buffer, uint64_t buffer_bytes) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->ReadAt(path, offset, buffer, buffer_bytes);
}

absl::StatusOr<uint64_t> ForwardingFileSystem::ReadUncached(const std::string& path,
                                                            uint64_t offset, char* buffer,
                                                            uint64_t buffer_bytes) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->ReadUncached(path, offset, buffer, buffer_bytes);
}

absl::StatusOr<uint64_t> ForwardingFileSystem::FileSize(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->FileSize(path);
}

absl::StatusOr<bool> ForwardingFileSystem::Exists(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->Exists(path);
}

absl::StatusOr<std::vector<FileInfo>> ForwardingFileSystem::List(const std::string& directory) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(directory));
  return files->List(directory);
}

absl::Status ForwardingFileSystem::MakeDirectories(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->MakeDirectories(path);
}

absl::Status ForwardingFileSystem::Rename(const std::string& from, const std::string& to) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(from));
  return files->Rename(from, to);
}

absl::Status ForwardingFileSystem::SyncDirectory(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->SyncDirectory(path);
}

absl::Status ForwardingFileSystem::RemoveFile(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->RemoveFile(path);
}

absl::Status ForwardingFileSystem::RemoveTree(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->RemoveTree(path);
}

}  // namespace muster
