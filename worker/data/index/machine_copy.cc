#include "worker/data/index/machine_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/deadline.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/fs/errno_status.h"
#include "common/fs/list_some.h"
#include "common/os/boot_id.h"
#include "common/os/sha256.h"

namespace muster::worker {
namespace {

constexpr size_t kCopyBytes = 1u << 20;
constexpr uint64_t kTailBytes = 4u << 10;
constexpr uint64_t kFreePart = 10;  // of the disk: so many-th
constexpr size_t kMostCopies = 1000;
constexpr absl::Duration kCopyPause = absl::Milliseconds(100);
constexpr absl::Duration kCopyPatience = absl::Minutes(5);  // with another that makes it

// This user's alone: others could give it other data.
absl::StatusOr<std::string> CopyFolder() {
  const char* temporary = ::getenv("TMPDIR");
  const std::string folder =
      absl::StrCat(temporary == nullptr || *temporary == '\0' ? "/var/tmp" : temporary,
                   "/muster-index-", ::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return FileErrno(errno, "make", folder);
  struct stat info = {};
  if (::lstat(folder.c_str(), &info) != 0) return FileErrno(errno, "stat", folder);
  const bool is_own =
      S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
  if (!is_own) return absl::PermissionDeniedError(absl::StrCat(folder, " is not this user's own"));
  return folder;
}

absl::StatusOr<uint64_t> SizeOf(const UniqueFd& file, const std::string& path) {
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return FileErrno(errno, "stat", path);
  return static_cast<uint64_t>(info.st_size);
}

bool IsThere(const UniqueFd& file) {
  struct stat info = {};
  return ::fstat(file.get(), &info) == 0 && info.st_nlink > 0;
}

absl::StatusOr<UniqueFd> OpenOrCreate(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return FileErrno(errno, "open", path);
  return fd;
}

// False: another has it.
absl::StatusOr<bool> Hold(const UniqueFd& fd, const std::string& path, int how) {
  while (::flock(fd.get(), how | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return FileErrno(errno, "flock", path);
  }
  return true;
}

// A copy of another boot may lack what was never written to the disk.
absl::StatusOr<std::string> NameOfCopy(const std::string& path, const UniqueFd& file,
                                       uint64_t bytes) {
  std::string tail(std::min(bytes, kTailBytes), '\0');
  const ssize_t got =
      ::pread(file.get(), tail.data(), tail.size(), static_cast<off_t>(bytes - tail.size()));
  if (got < 0) return FileErrno(errno, "read", path);
  return Sha256Hex(absl::StrCat(BootId(), "\n", path, "\n", bytes, "\n", tail)).substr(0, 32);
}

void RemoveUnusedCopies(const std::string& folder, const std::string& kept) {
  const absl::StatusOr<std::vector<FileInfo>> files = ListSome(folder, kMostCopies);
  if (!files.ok()) return;
  for (const FileInfo& file : *files) {
    if (file.name == kept) continue;
    const std::string path = absl::StrCat(folder, "/", file.name);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.valid() && Hold(fd, path, LOCK_EX).value_or(false)) ::unlink(path.c_str());
  }
}

absl::Status CheckRoom(const UniqueFd& copy, const std::string& path, uint64_t bytes) {
  struct statvfs disk = {};
  if (::fstatvfs(copy.get(), &disk) != 0) return FileErrno(errno, "statvfs", path);
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t kept = uint64_t{disk.f_blocks} * disk.f_frsize / kFreePart;
  if (free >= kept && free - kept >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(path, " would take ", HumanBytes(static_cast<double>(bytes)),
                   ", and a tenth of its disk is to stay free: set TMPDIR to a folder of this "
                   "machine with more room"));
}

absl::Status CopyBytes(const std::string& path, const UniqueFd& from, const std::string& copy_path,
                       const UniqueFd& copy, uint64_t bytes,
                       const std::function<absl::Status()>& progress) {
  if (::ftruncate(copy.get(), 0) != 0) return FileErrno(errno, "truncate", copy_path);
  MUSTER_RETURN_IF_ERROR(CheckRoom(copy, copy_path, bytes));
  std::string buffer(kCopyBytes, '\0');
  for (uint64_t done = 0; done < bytes;) {
    MUSTER_RETURN_IF_ERROR(progress());
    const size_t wanted = std::min<uint64_t>(buffer.size(), bytes - done);
    const ssize_t got = ::pread(from.get(), buffer.data(), wanted, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileErrno(errno, "read", path);
    if (got == 0) return absl::UnavailableError(absl::StrCat(path, " became shorter"));
    for (ssize_t put = 0; put < got;) {
      const ssize_t n = ::pwrite(copy.get(), buffer.data() + put, static_cast<size_t>(got - put),
                                 static_cast<off_t>(done) + put);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileErrno(errno, "write", copy_path);
      put += n;
    }
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MachineCopy> MachineCopy::Of(const std::string& path, const UniqueFd& file,
                                            const std::function<absl::Status()>& progress) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOf(file, path));
  MUSTER_ASSIGN_OR_RETURN(const std::string name, NameOfCopy(path, file, bytes));
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, CopyFolder());
  RemoveUnusedCopies(folder, name);
  const std::string copy_path = absl::StrCat(folder, "/", name);
  uint64_t made = 0;  // of it, by another
  for (Deadline patience(kCopyPatience); !patience.over();) {
    MUSTER_RETURN_IF_ERROR(progress());
    MUSTER_ASSIGN_OR_RETURN(UniqueFd copy, OpenOrCreate(copy_path));
    MUSTER_ASSIGN_OR_RETURN(const bool is_alone, Hold(copy, copy_path, LOCK_EX));
    if (is_alone && IsThere(copy)) {
      MUSTER_ASSIGN_OR_RETURN(const uint64_t size, SizeOf(copy, copy_path));
      if (size != bytes) {
        const absl::Status copied = CopyBytes(path, file, copy_path, copy, bytes, progress);
        if (!copied.ok()) ::unlink(copy_path.c_str());
        MUSTER_RETURN_IF_ERROR(copied);
      }
    }
    // Between both locks it may be removed.
    MUSTER_ASSIGN_OR_RETURN(const bool is_held, Hold(copy, copy_path, LOCK_SH));
    MUSTER_ASSIGN_OR_RETURN(const uint64_t size, SizeOf(copy, copy_path));
    if (is_held && size == bytes && IsThere(copy)) return MachineCopy(copy_path, std::move(copy));
    if (std::exchange(made, size) != size) patience = Deadline(kCopyPatience);
    absl::SleepFor(kCopyPause);
  }
  return absl::UnavailableError(absl::StrCat(copy_path,
                                             " is held by a process that has written nothing for ",
                                             absl::FormatDuration(kCopyPatience)));
}

MachineCopy::~MachineCopy() {
  if (fd_.valid() && Hold(fd_, path_, LOCK_EX).value_or(false) && IsThere(fd_))
    ::unlink(path_.c_str());
}

}  // namespace muster::worker
