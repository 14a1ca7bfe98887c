#include "common/fs/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/fs/errno_status.h"

namespace muster {

namespace {

// So often a file may go between its opening and its lock, before that is an error.
constexpr int kMostOpenings = 100;

// Lustre without the option `flock`, NFS without a lock daemon, and the like.
bool SaysThatThereAreNoLocks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

}  // namespace

absl::StatusOr<std::optional<FileLock>> FileLock::Try(const std::string& path) {
  for (int opening = 0; opening < kMostOpenings; ++opening) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (fd.get() < 0) return FileErrno(errno, "open", path);
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      if (SaysThatThereAreNoLocks(errno)) {
        return absl::UnimplementedError(
            absl::StrCat(FileErrno(errno, "flock", path).message(), ": its disk has no locks"));
      }
      if (errno != EINTR) return FileErrno(errno, "flock", path);
    }
    // Its last holder may have removed it meanwhile: others lock the next one.
    struct stat info = {};
    if (::fstat(fd.get(), &info) != 0) return FileErrno(errno, "stat", path);
    if (info.st_nlink > 0) return FileLock(std::move(fd));
  }
  return absl::UnavailableError(absl::StrCat(path, " is removed again and again"));
}

void FileLock::Touch() const { (void)!::futimens(fd_.get(), nullptr); }

}  // namespace muster
