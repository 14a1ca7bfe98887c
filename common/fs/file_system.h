// The only door to files but SQLite's. Posix now; an object store is one more kind behind it.
//
// All paths are absolute or relative to the working directory. Errors carry the path and errno's
// text; ENOSPC and EDQUOT are RESOURCE_EXHAUSTED, ENOENT and ENOTDIR NOT_FOUND, EEXIST and
// ENOTEMPTY ALREADY_EXISTS, EACCES, EPERM and EROFS PERMISSION_DENIED, what is no regular file
// where one is read FAILED_PRECONDITION, the rest UNAVAILABLE. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A file being written, made with O_EXCL. Close() or lose it: the destructor closes without
// reporting.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::Status
  Sync() = 0;  // fsync; after a failure the file is unusable and must be written anew
  virtual absl::Status Close() = 0;
};

struct FileInfo {
  std::string name;  // without its folder
  bool is_directory = false;
  uint64_t size_bytes = 0;
  bool is_link = false;  // then neither tells what it points to; FileSize and List follow it
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                        uint32_t mode) = 0;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path) {
    return CreateExclusive(path, 0644);
  }
  // The whole file. FAILED_PRECONDITION when it is larger than max_bytes.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) = 0;
  // Reads up to buffer_bytes at offset; returns how many (0: end of file).
  virtual absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                          uint64_t buffer_bytes) = 0;
  // As ReadAt, for who wants a few bytes here and there: where files are far away nothing beside
  // them is fetched, and nothing is kept.
  virtual absl::StatusOr<uint64_t> ReadUncached(const std::string& path, uint64_t offset,
                                                char* buffer, uint64_t buffer_bytes) {
    return ReadAt(path, offset, buffer, buffer_bytes);
  }
  virtual absl::StatusOr<uint64_t> FileSize(const std::string& path) = 0;
  virtual absl::StatusOr<bool> Exists(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) = 0;  // by name
  virtual absl::Status MakeDirectories(const std::string& path) = 0;  // OK when it is there
  // Replaces a file, or an empty folder, at `to`; ALREADY_EXISTS for a folder that holds something.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::Status RemoveFile(const std::string& path) = 0;
  virtual absl::Status RemoveTree(const std::string& path) = 0;  // OK when it is not there

  // For who is leaving: calls that wait for another machine end with CANCELLED within about a
  // second, and those that come later at once. What reads this machine's files the kernel alone
  // could end.
  virtual void Cancel() {}
  // Why calls to another machine are repeated at this time; empty: they are not.
  virtual std::string Trouble() { return ""; }
};

// Whether a file is there that need not be. One that may not be looked at counts as absent: object
// stores deny what is not there to who may not list.
absl::StatusOr<bool> ExistsIfAllowed(FileSystem& fs, const std::string& path);

// The folder that the path is in: "/a" of "/a/b", "/" of "/a", "." of "a".
std::string ParentFolder(const std::string& path);

// Whether WriteFileAtomically gave the name to a temporary file. Such a file stays where its writer
// was killed.
bool IsTemporaryName(absl::string_view name);

// Writes through a temporary name beside `path`, fsyncs, renames, fsyncs the folder: the file is
// whole or as it was. A failed attempt removes its temporary file.
absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path, absl::string_view bytes,
                                 uint32_t mode = 0644);

// The one real file system; lives for ever.
FileSystem& PosixFileSystem();

}  // namespace muster
