#include "common/fs/errno_status.h"

#include <errno.h>
#include <string.h>

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status FileErrno(int error, absl::string_view action, const std::string& path) {
  char buffer[128];
  const std::string message =
      absl::StrCat("cannot ", action, " ", path, ": ", strerror_r(error, buffer, sizeof buffer));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EISDIR:
      return absl::FailedPreconditionError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace muster
