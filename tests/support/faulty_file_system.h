// A FileSystem that passes everything on to a real one, and at its n-th changing operation does
// what the test says: fail with a status, or run a hook (a crash test kills its own process there).
// Each Create, Append, Sync, Close, MakeDirectories, Rename, SyncDirectory, RemoveFile and
// RemoveTree is one operation. Used by one thread at a time. The trace tells which operations ran.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/fs/file_system.h"

namespace muster::testing {

class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& real) : real_(real) {}

  // From the n-th operation from now (1 is the next): fail it, and the `count` - 1 after it.
  void FailAt(int n, absl::Status status, int count = 1) {
    fault_first_ = operations_ + n;
    fault_last_ = fault_first_ + count - 1;
    fault_ = std::move(status);
  }
  // Before the n-th operation from now; an Append has by then written half of its bytes.
  void CallAt(int n, std::function<void()> hook) {
    hook_at_ = operations_ + n;
    hook_ = std::move(hook);
  }
  int operations() const { return operations_; }
  // "append PATH" and the like, in order.
  const std::vector<std::string>& trace() const { return trace_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override {
    MUSTER_RETURN_IF_ERROR(Operation("create " + path));
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
    MUSTER_RETURN_IF_ERROR(Operation("mkdir " + path));
    return real_.MakeDirectories(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    MUSTER_RETURN_IF_ERROR(Operation("rename " + to));
    return real_.Rename(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Operation("syncdir " + path));
    return real_.SyncDirectory(path);
  }
  absl::Status RemoveFile(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Operation("remove " + path));
    return real_.RemoveFile(path);
  }
  absl::Status RemoveTree(const std::string& path) override {
    MUSTER_RETURN_IF_ERROR(Operation("removetree " + path));
    return real_.RemoveTree(path);
  }

 private:
  class File final : public WritableFile {
   public:
    File(FaultyFileSystem& fs, std::string path, std::unique_ptr<WritableFile> real)
        : fs_(fs), path_(std::move(path)), real_(std::move(real)) {}
    absl::Status Append(absl::string_view bytes) override {
      if (fs_.HookIsNext()) {
        MUSTER_RETURN_IF_ERROR(real_->Append(bytes.substr(0, bytes.size() / 2)));
        bytes.remove_prefix(bytes.size() / 2);
      }
      MUSTER_RETURN_IF_ERROR(fs_.Operation("append " + path_));
      return real_->Append(bytes);
    }
    absl::Status Sync() override {
      MUSTER_RETURN_IF_ERROR(fs_.Operation("sync " + path_));
      return real_->Sync();
    }
    absl::Status Close() override {
      MUSTER_RETURN_IF_ERROR(fs_.Operation("close " + path_));
      return real_->Close();
    }

   private:
    FaultyFileSystem& fs_;
    const std::string path_;
    std::unique_ptr<WritableFile> real_;
  };

  bool HookIsNext() const { return hook_ && operations_ + 1 == hook_at_; }

  absl::Status Operation(std::string what) {
    ++operations_;
    trace_.push_back(std::move(what));
    if (hook_ && operations_ == hook_at_) hook_();
    if (operations_ >= fault_first_ && operations_ <= fault_last_) return fault_;
    return absl::OkStatus();
  }

  FileSystem& real_;
  int operations_ = 0;
  int fault_first_ = -1;
  int fault_last_ = -1;
  absl::Status fault_;
  int hook_at_ = -1;
  std::function<void()> hook_;
  std::vector<std::string> trace_;
};

}  // namespace muster::testing
