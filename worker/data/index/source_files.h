// The files that an index's samples lie in, while it is made: their paths and sizes, as the index
// has them.
//
// Bounded memory, for an image folder has as many files as samples: what is beyond a megabyte lies
// in two files of its own, which come to be when they are needed. Used by IndexWriter. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "worker/data/index/appended_file.h"

namespace muster::worker {

// Bytes that are appended and may be read again: the last ones in memory, the others in a file.
class SpilledBytes {
 public:
  SpilledBytes(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  // In memory, until Spill.
  void Append(absl::string_view bytes) { held_.append(bytes.data(), bytes.size()); }
  uint64_t size() const { return spilled_ + held_.size(); }
  bool is_large() const { return held_.size() >= kMostHeldBytes; }
  absl::Status Spill();
  // Requires a range that was appended.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t bytes) const;
  absl::Status CopyTo(AppendedFile& to, const std::function<absl::Status()>& progress);

 private:
  static constexpr size_t kMostHeldBytes = 1u << 20;

  FileSystem& fs_;
  const std::string path_;
  std::optional<AppendedFile> file_;
  uint64_t spilled_ = 0;  // bytes in the file
  std::string held_;
};

struct SourceFile {
  std::string path;
  uint64_t size_bytes = 0;
};

class SourceFiles {
 public:
  // The two files, of sizes and of paths: who made this object removes them.
  SourceFiles(FileSystem& fs, std::string sizes, std::string paths)
      : table_(fs, std::move(sizes)), paths_(fs, std::move(paths)) {}

  // In memory, until Spill. Returns the file's number.
  uint32_t Add(const std::string& path, uint64_t size_bytes);
  bool is_large() const { return table_.is_large() || paths_.is_large(); }
  absl::Status Spill();

  uint64_t count() const { return count_; }
  uint64_t path_bytes() const { return paths_.size(); }
  // Requires file < count. The one that was added last costs nothing.
  absl::StatusOr<SourceFile> At(uint32_t file) const;
  // The table, and the paths behind it (index_layout.h).
  absl::Status CopyTo(AppendedFile& to, const std::function<absl::Status()>& progress);

 private:
  SpilledBytes table_, paths_;
  uint64_t count_ = 0;
  SourceFile last_;
};

}  // namespace muster::worker
