#include "common/fs/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "common/fs/errno_status.h"

namespace muster {

absl::StatusOr<std::optional<FileLock>> FileLock::Try(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) return FileErrno(errno, "open", path);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) return FileErrno(errno, "flock", path);
  }
  return FileLock(std::move(fd));
}

}  // namespace muster
