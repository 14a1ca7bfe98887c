// A part of a file that is read from front to back, a piece at a time.
//
// Used by column_reader.cc. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class FileWindow {
 public:
  // [begin, end) of the file, in bytes; `fs` and `path` must outlive this.
  FileWindow(FileSystem& fs, const std::string& path, uint64_t begin, uint64_t end)
      : fs_(fs), path_(path), end_(end), at_(begin) {}

  // `size` bytes at `offset`, valid until the next call. Requires them to lie in [begin, end), and
  // `offset` not to lie before that of the last call. Reads what it has not got yet, and
  // kAheadBytes at least where there are as many. DATA_LOSS when the file ends before; else fs's
  // codes.
  absl::StatusOr<absl::string_view> Fetch(uint64_t offset, uint64_t size);

  uint64_t end() const { return end_; }

 private:
  static constexpr uint64_t kAheadBytes = 64u << 10;

  FileSystem& fs_;
  const std::string& path_;
  const uint64_t end_;
  uint64_t at_;  // where held_ begins in the file
  std::string held_;
};

}  // namespace muster::worker
