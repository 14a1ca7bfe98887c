// A place in a file, and the bytes from there on, read ahead through FileSystem::ReadAt.
//
// Used by the readers of formats, which look at headers and skip what lies between them. Where
// headers lie close together the cursor reads much at once; where each skip leaves what was read,
// it reads little. Memory: one window. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// How much one call of ReadAt asks for: doubled while what is read is used, halved when it is not.
// An object store wants more than a disk, since each call takes it as long as some megabytes.
struct ReadWindow {
  uint64_t least_bytes = 16 << 10;
  uint64_t most_bytes = 1 << 20;
};

class FileCursor {
 public:
  // What Read gives at most at once.
  static constexpr uint64_t kMostReadBytes = 1 << 20;

  // At the start of the file. Errors of FileSystem::FileSize. `fs` lives longer than the cursor.
  static absl::StatusOr<FileCursor> Open(FileSystem& fs, std::string path, ReadWindow window = {});

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // of the file when it was opened, in bytes
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return position_ < size_ ? size_ - position_ : 0; }

  // The next `bytes` bytes, valid until the next call; the cursor is behind them then.
  // INVALID_ARGUMENT where the file has fewer or they are more than kMostReadBytes, DATA_LOSS where
  // it has become shorter since it was opened, and the errors of ReadAt.
  absl::StatusOr<absl::string_view> Read(uint64_t bytes);
  // INVALID_ARGUMENT where the file ends before.
  absl::Status Skip(uint64_t bytes);
  // Any place, also behind the end, where nothing can be read.
  void SeekTo(uint64_t position) { position_ = position; }

  // INVALID_ARGUMENT naming the file and the place in it.
  absl::Status Bad(uint64_t offset, absl::string_view what) const;

 private:
  FileCursor(FileSystem& fs, std::string path, uint64_t size, ReadWindow window)
      : fs_(&fs), path_(std::move(path)), size_(size), window_(window) {}

  absl::Status Fill(uint64_t bytes);
  absl::Status CutOff(uint64_t bytes) const;

  FileSystem* fs_;
  std::string path_;
  uint64_t size_ = 0;
  ReadWindow window_;
  uint64_t position_ = 0;

  std::string buffer_;
  uint64_t buffer_at_ = 0;     // where in the file it begins
  uint64_t buffer_bytes_ = 0;  // what of it is filled
  uint64_t ask_bytes_ = 0;     // what the last fill wanted
};

}  // namespace muster::worker
