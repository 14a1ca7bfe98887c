#include "worker/agent/data_dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster::worker {

absl::StatusOr<DataDirLock> DataDirLock::Take(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/lock");
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    const std::string message = absl::StrCat("cannot open ", path, ": ", ::strerror(errno));
    return errno == EACCES || errno == EROFS ? absl::PermissionDeniedError(message)
                                             : absl::UnavailableError(message);
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t got = ::pread(fd.get(), holder, sizeof holder - 1, 0);
    const absl::string_view pid =
        absl::StripSuffix({holder, got > 0 ? static_cast<size_t>(got) : 0}, "\n");
    return absl::FailedPreconditionError(
        absl::StrCat("data folder ", directory, " is in use by another muster-worker (pid ",
                     pid.empty() ? "unknown" : pid, "); stop it, or give another --data-dir"));
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", ::strerror(errno)));
  }
  return DataDirLock(std::move(fd));
}

}  // namespace muster::worker
