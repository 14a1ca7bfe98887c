#include "common/daemon/data_dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// The process id that the holder wrote; "?" when it has not yet.
std::string HolderOf(int fd) {
  char text[32];
  const ssize_t bytes = ::pread(fd, text, sizeof(text), 0);
  if (bytes <= 0) return "?";
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text, bytes)));
}

absl::Status Failed(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  return error == EACCES || error == EROFS ? absl::PermissionDeniedError(message)
                                           : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<DataDirLock> DataDirLock::Take(const std::string& data_dir,
                                              absl::string_view program) {
  const std::string path = absl::StrCat(data_dir, "/lock");
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return Failed(path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed(path, errno);
    return absl::FailedPreconditionError(
        absl::StrCat(data_dir, ": another ", program, " (process ", HolderOf(fd.get()),
                     ") holds this folder; stop it first, or choose another --data-dir"));
  }
  // For who is refused to name. It is held without, as on a full disk.
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(fd.get(), pid.data(), pid.size(), 0);
  }
  return DataDirLock(std::move(fd));
}

}  // namespace muster
