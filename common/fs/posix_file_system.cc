#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/fs/errno_status.h"
#include "common/fs/file_system.h"
#include "common/fs/list_some.h"
#include "common/fs/remove_tree.h"

namespace muster {
namespace {

// Runs a system call again while a signal interrupts it.
template <typename Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Opens a regular file for reading. O_NONBLOCK: a FIFO under that name must not hang the caller.
absl::StatusOr<UniqueFd> OpenForReading(const std::string& path, struct stat* info) {
  UniqueFd fd(Retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd.valid()) return FileErrno(errno, "open", path);
  if (::fstat(fd.get(), info) != 0) return FileErrno(errno, "stat", path);
  if (!S_ISREG(info->st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  return fd;
}

absl::StatusOr<uint64_t> PreadFull(int fd, const std::string& path, uint64_t offset, char* buffer,
                                   uint64_t bytes) {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = Retry([&] {
      return ::pread(fd, buffer + done, bytes - done, static_cast<off_t>(offset + done));
    });
    if (got < 0) return FileErrno(errno, "read", path);
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view bytes) override {
    MUSTER_RETURN_IF_ERROR(CheckUsable());
    while (!bytes.empty()) {
      const ssize_t put = Retry([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (put < 0) return Fail(FileErrno(errno, "write", path_));
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    MUSTER_RETURN_IF_ERROR(CheckUsable());
    if (Retry([&] { return ::fsync(fd_.get()); }) != 0) {
      return Fail(FileErrno(errno, "sync", path_));
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    MUSTER_RETURN_IF_ERROR(CheckUsable());
    // Never repeated: Linux frees the descriptor even when close reports an error.
    if (::close(fd_.Release()) != 0) return Fail(FileErrno(errno, "close", path_));
    failed_ = absl::FailedPreconditionError(absl::StrCat(path_, " is closed"));
    return absl::OkStatus();
  }

 private:
  absl::Status CheckUsable() const { return failed_; }
  absl::Status Fail(absl::Status status) { return failed_ = std::move(status); }

  UniqueFd fd_;
  const std::string path_;
  absl::Status failed_;  // the first error: after it nobody knows what is on disk
};

class Posix final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override {
    UniqueFd fd(Retry([&] {
      return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    }));
    if (!fd.valid()) return FileErrno(errno, "create", path);
    return std::make_unique<PosixWritableFile>(std::move(fd), path);
  }

  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    struct stat info;
    MUSTER_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReading(path, &info));
    const uint64_t size = static_cast<uint64_t>(info.st_size);
    if (size > max_bytes) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has ", size, " bytes, more than the ", max_bytes, " allowed here"));
    }
    std::string bytes(size, '\0');
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got, PreadFull(fd.get(), path, 0, bytes.data(), size));
    bytes.resize(got);
    return bytes;
  }

  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override {
    struct stat info;
    MUSTER_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReading(path, &info));
    if (offset >= static_cast<uint64_t>(info.st_size)) return 0;
    return PreadFull(fd.get(), path, offset, buffer, buffer_bytes);
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return FileErrno(errno, "stat", path);
    if (!S_ISREG(info.st_mode)) {
      return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
    }
    return static_cast<uint64_t>(info.st_size);
  }

  absl::StatusOr<bool> Exists(const std::string& path) override {
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return FileErrno(errno, "stat", path);
  }

  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override {
    MUSTER_ASSIGN_OR_RETURN(std::vector<FileInfo> files, ListSome(directory, SIZE_MAX));
    std::sort(files.begin(), files.end(),
              [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
    return files;
  }

  absl::Status MakeDirectories(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();  // its parents are there, mostly
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (::mkdir(part.c_str(), 0755) != 0) {
        // A parent that is there may refuse for other reasons than being there (read-only, no
        // permission): only the result counts.
        const int error = errno;
        struct stat info;
        if (::stat(part.c_str(), &info) != 0) return FileErrno(error, "make folder", part);
        if (!S_ISDIR(info.st_mode)) {
          return absl::AlreadyExistsError(
              absl::StrCat("cannot make folder ", path, ": ", part, " is not a folder"));
        }
      }
      if (end == std::string::npos) return absl::OkStatus();
    }
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      return FileErrno(errno, "rename", absl::StrCat(from, " to ", to));
    }
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) override {
    UniqueFd fd(Retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd.valid()) return FileErrno(errno, "open folder", path);
    if (Retry([&] { return ::fsync(fd.get()); }) != 0) return FileErrno(errno, "sync", path);
    return absl::OkStatus();
  }

  absl::Status RemoveFile(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return FileErrno(errno, "remove", path);
    return absl::OkStatus();
  }

  absl::Status RemoveTree(const std::string& path) override {
    return RemoveTreeByDescriptors(path);
  }
};

}  // namespace

absl::StatusOr<std::vector<FileInfo>> ListSome(const std::string& folder, size_t most) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return FileErrno(errno, "list", folder);
  return ListSome(fd, folder, most);
}

absl::StatusOr<std::vector<FileInfo>> ListSome(const UniqueFd& opened, const std::string& folder,
                                               size_t most) {
  // One of its own: a list takes its descriptor, and its place in it, along.
  UniqueFd fd(::openat(opened.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::unique_ptr<DIR, int (*)(DIR*)> dir(fd.valid() ? ::fdopendir(fd.get()) : nullptr,
                                          &::closedir);
  if (dir == nullptr) return FileErrno(errno, "list", folder);
  fd.Release();
  std::vector<FileInfo> files;
  while (files.size() < most) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr && errno != 0) return FileErrno(errno, "list", folder);
    if (entry == nullptr) break;
    FileInfo file;
    file.name = entry->d_name;
    if (file.name == "." || file.name == "..") continue;
    struct stat info;
    // What vanished since readdir is not listed.
    if (::fstatat(::dirfd(dir.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return FileErrno(errno, "stat", absl::StrCat(folder, "/", file.name));
    }
    file.is_directory = S_ISDIR(info.st_mode);
    file.is_link = S_ISLNK(info.st_mode);
    file.size_bytes = static_cast<uint64_t>(info.st_size);
    files.push_back(std::move(file));
  }
  return files;
}

FileSystem& PosixFileSystem() {
  static Posix file_system;
  return file_system;
}

}  // namespace muster
