// A FileSystem that counts the reads of another one, and fails the n-th.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/fs/file_system.h"

namespace muster::testing {

class WatchedReads final : public FileSystem {
 public:
  explicit WatchedReads(FileSystem& real) : real_(real) {}

  void FailAt(int call) { fail_at_ = call; }  // 1: the next call of ReadAt, FileSize or List
  int reads() const { return reads_; }
  uint64_t bytes() const { return bytes_; }

  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override {
    if (Fails()) return absl::UnavailableError("a bad disk");
    const auto got = real_.ReadAt(path, offset, buffer, buffer_bytes);
    ++reads_;
    if (got.ok()) bytes_ += *got;
    return got;
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    if (Fails()) return absl::UnavailableError("a bad disk");
    return real_.FileSize(path);
  }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override {
    if (Fails()) return absl::UnavailableError("a bad disk");
    return real_.List(directory);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    return real_.ReadFile(path, max_bytes);
  }
  absl::StatusOr<bool> Exists(const std::string& path) override { return real_.Exists(path); }

  // Readers of formats write nothing.
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t) override {
    return absl::UnimplementedError(path);
  }
  absl::Status MakeDirectories(const std::string& path) override { return Never(path); }
  absl::Status Rename(const std::string& from, const std::string&) override { return Never(from); }
  absl::Status SyncDirectory(const std::string& path) override { return Never(path); }
  absl::Status RemoveFile(const std::string& path) override { return Never(path); }
  absl::Status RemoveTree(const std::string& path) override { return Never(path); }

 private:
  static absl::Status Never(const std::string& path) { return absl::UnimplementedError(path); }
  bool Fails() { return fail_at_ > 0 && --fail_at_ == 0; }

  FileSystem& real_;
  int fail_at_ = 0;
  int reads_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace muster::testing
