// A disk that fills up and has room again: while it is full nothing can be added to a file and no
// folder be made, as with ENOSPC; empty files, renames and removals go on. Thread-safe.
#pragma once

#include <errno.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/fs/errno_status.h"
#include "common/fs/file_system.h"

namespace muster::testing {

class FullFileSystem final : public FileSystem {
 public:
  explicit FullFileSystem(FileSystem& real) : real_(real) {}

  void SetFull(bool full) { full_ = full; }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override {
    MUSTER_ASSIGN_OR_RETURN(auto file, real_.CreateExclusive(path, mode));
    return std::make_unique<File>(*this, path, std::move(file));
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    return real_.ReadFile(path, max_bytes);
  }
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override {
    return real_.ReadAt(path, offset, buffer, buffer_bytes);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    return real_.FileSize(path);
  }
  absl::StatusOr<bool> Exists(const std::string& path) override { return real_.Exists(path); }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override {
    return real_.List(directory);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    MUSTER_ASSIGN_OR_RETURN(const bool is_there, real_.Exists(path));
    if (!is_there && full_) return FileErrno(ENOSPC, "create", path);
    return real_.MakeDirectories(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return real_.Rename(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override { return real_.SyncDirectory(path); }
  absl::Status RemoveFile(const std::string& path) override { return real_.RemoveFile(path); }
  absl::Status RemoveTree(const std::string& path) override { return real_.RemoveTree(path); }

 private:
  class File final : public WritableFile {
   public:
    File(const FullFileSystem& fs, std::string path, std::unique_ptr<WritableFile> real)
        : fs_(fs), path_(std::move(path)), real_(std::move(real)) {}
    absl::Status Append(absl::string_view bytes) override {
      if (fs_.full_) return FileErrno(ENOSPC, "write", path_);
      return real_->Append(bytes);
    }
    absl::Status Sync() override { return real_->Sync(); }
    absl::Status Close() override { return real_->Close(); }

   private:
    const FullFileSystem& fs_;
    const std::string path_;
    const std::unique_ptr<WritableFile> real_;
  };

  FileSystem& real_;
  std::atomic<bool> full_ = false;
};

}  // namespace muster::testing
