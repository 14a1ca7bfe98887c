// A FileSystem whose files are in memory, so that a fuzzer may try any path and any order of calls
// without leaving a trace. Folders are there as soon as somebody makes them or a file in them.
//
// Paths are taken as they are written: no links, no "..". One thread.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/fs/file_system.h"

namespace muster::testing {

class MemoryFileSystem final : public FileSystem {
 public:
  // For the fuzzer to fill and to look at.
  std::map<std::string, std::string>& files() { return files_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t /*mode*/) override {
    if (files_.count(path) > 0) return absl::AlreadyExistsError(path);
    files_[path];
    NoteFolders(path);
    return std::make_unique<File>(files_, path);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return absl::NotFoundError(path);
    if (found->second.size() > max_bytes) return absl::FailedPreconditionError(path);
    return found->second;
  }
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return absl::NotFoundError(path);
    if (offset >= found->second.size()) return 0;
    const uint64_t count = std::min<uint64_t>(buffer_bytes, found->second.size() - offset);
    std::copy_n(found->second.data() + offset, count, buffer);
    return count;
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return absl::NotFoundError(path);
    return found->second.size();
  }
  absl::StatusOr<bool> Exists(const std::string& path) override {
    return files_.count(path) > 0 || folders_.count(path) > 0;
  }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override {
    std::map<std::string, FileInfo> entries;
    const std::string start = directory + "/";
    for (const auto& [path, bytes] : files_) {
      if (!absl::StartsWith(path, start)) continue;
      const std::string rest = path.substr(start.size());
      const size_t slash = rest.find('/');
      const std::string name = rest.substr(0, slash);
      const bool below = slash != std::string::npos;
      entries[name] = {name, below, below ? 0 : bytes.size()};
    }
    std::vector<FileInfo> list;
    for (const auto& [name, info] : entries) list.push_back(info);
    return list;
  }
  absl::Status MakeDirectories(const std::string& path) override {
    NoteFolders(path + "/");
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    const auto found = files_.find(from);
    if (found == files_.end()) return absl::NotFoundError(from);
    std::string bytes = std::move(found->second);
    files_.erase(found);
    files_[to] = std::move(bytes);
    NoteFolders(to);
    return absl::OkStatus();
  }
  absl::Status SyncDirectory(const std::string&) override { return absl::OkStatus(); }
  absl::Status RemoveFile(const std::string& path) override {
    return files_.erase(path) > 0 ? absl::OkStatus() : absl::NotFoundError(path);
  }
  absl::Status RemoveTree(const std::string& path) override {
    const std::string start = path + "/";
    std::erase_if(files_, [&](const auto& file) {
      return file.first == path || absl::StartsWith(file.first, start);
    });
    std::erase_if(folders_, [&](const std::string& folder) {
      return folder == path || absl::StartsWith(folder, start);
    });
    return absl::OkStatus();
  }

 private:
  class File final : public WritableFile {
   public:
    File(std::map<std::string, std::string>& files, std::string path)
        : files_(files), path_(std::move(path)) {}
    absl::Status Append(absl::string_view bytes) override {
      const auto found = files_.find(path_);
      if (found != files_.end()) absl::StrAppend(&found->second, bytes);  // else it was unlinked
      return absl::OkStatus();
    }
    absl::Status Sync() override { return absl::OkStatus(); }
    absl::Status Close() override { return absl::OkStatus(); }

   private:
    std::map<std::string, std::string>& files_;
    const std::string path_;
  };

  void NoteFolders(const std::string& path) {
    for (size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      folders_.insert(path.substr(0, slash));
    }
  }

  std::map<std::string, std::string> files_;
  std::set<std::string> folders_;
};

}  // namespace muster::testing
