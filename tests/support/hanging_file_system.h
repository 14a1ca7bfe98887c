// A FileSystem that passes everything on to the real one, but reads of files beneath some folders
// and removals of trees there do not come back before Release: a network file system whose server
// is away. Thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"

namespace muster::testing {

class HangingFileSystem final : public FileSystem {
 public:
  // Paths hang that begin with one of these.
  explicit HangingFileSystem(std::vector<std::string> hang) : hang_(std::move(hang)) {}
  // They do from the start, and again after Hang.
  void Hang() {
    MutexLock lock(mutex_);
    hangs_ = true;
  }
  // What hangs goes on hanging, but nothing new does: another mount has taken its place.
  void LetPass() {
    MutexLock lock(mutex_);
    hangs_ = false;
  }
  void Release() {
    MutexLock lock(mutex_);
    hangs_ = false;
    ++releases_;
    changed_.NotifyAll();
  }
  // Calls that have hung so far.
  int hung() const {
    MutexLock lock(mutex_);
    return hung_;
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override {
    return real_.CreateExclusive(path, mode);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    MayHang(path);
    return real_.ReadFile(path, max_bytes);
  }
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t bytes) override {
    MayHang(path);
    return real_.ReadAt(path, offset, buffer, bytes);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    return real_.FileSize(path);
  }
  absl::StatusOr<bool> Exists(const std::string& path) override { return real_.Exists(path); }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& path) override {
    return real_.List(path);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    return real_.MakeDirectories(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return real_.Rename(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override { return real_.SyncDirectory(path); }
  absl::Status RemoveFile(const std::string& path) override { return real_.RemoveFile(path); }
  absl::Status RemoveTree(const std::string& path) override {
    MayHang(path);
    return real_.RemoveTree(path);
  }

 private:
  void MayHang(const std::string& path) {
    const bool hangs = std::any_of(hang_.begin(), hang_.end(), [&](const std::string& prefix) {
      return absl::StartsWith(path, prefix);
    });
    if (!hangs) return;
    MutexLock lock(mutex_);
    if (!hangs_) return;
    ++hung_;
    for (const int before = releases_; releases_ == before;) changed_.Wait(mutex_);
  }

  FileSystem& real_ = PosixFileSystem();
  const std::vector<std::string> hang_;
  mutable Mutex mutex_;
  CondVar changed_;
  int hung_ MUSTER_GUARDED_BY(mutex_) = 0;
  int releases_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool hangs_ MUSTER_GUARDED_BY(mutex_) = true;
};

}  // namespace muster::testing
