#include "common/fs/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/fs/errno_status.h"

namespace muster {
namespace {

// O_PATH goes with few others; it opens nothing that could hang.
int WithAlways(int flags) { return flags | O_CLOEXEC | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK); }

// openat2 asks the caller to try again when names move while it looks.
constexpr int kTries = 32;

absl::Status LeadsOut(const std::string& path) {
  return absl::PermissionDeniedError(
      absl::StrCat(path, " leads out of its folder (over a link, `..` or a mount)"));
}

absl::Status Failure(int error, const std::string& path) {
  const bool leads_out = error == EXDEV || error == ELOOP;
  return leads_out ? LeadsOut(path) : FileErrno(error, "open", path);
}

int OpenAt2(int folder, const std::string& path, int flags, Links links, Mounts mounts) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(WithAlways(flags));
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (mounts == Mounts::kRefused) how.resolve |= RESOLVE_NO_XDEV;
  if (links == Links::kNone) how.resolve |= RESOLVE_NO_SYMLINKS;
  int fd = -1;
  for (int i = 0; i < kTries && fd < 0; ++i) {
    fd = static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
    if (fd < 0 && errno != EAGAIN && errno != EINTR) break;
  }
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenFolder(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), WithAlways(O_RDONLY | O_DIRECTORY)));
  if (!fd.valid()) return FileErrno(errno, "open folder", path);
  return fd;
}

absl::StatusOr<UniqueFd> OpenBeneath(int folder, const std::string& path, int flags, Links links,
                                     Mounts mounts) {
  UniqueFd fd(OpenAt2(folder, path, flags, links, mounts));
  if (fd.valid()) return fd;
  // A sandbox may refuse a call that it does not know by EPERM.
  if (errno == ENOSYS || errno == EPERM) {
    return internal::WalkBeneath(folder, path, flags, mounts);
  }
  return Failure(errno, path);
}

absl::StatusOr<UniqueFd> internal::WalkBeneath(int folder, const std::string& path, int flags,
                                               Mounts mounts) {
  if (path.empty() || path[0] == '/') return LeadsOut(path);
  struct stat top = {};
  if (::fstat(folder, &top) != 0) return Failure(errno, path);
  const std::vector<std::string> names = absl::StrSplit(path, '/', absl::SkipEmpty());
  UniqueFd at;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "..") return LeadsOut(path);
    const int wanted = i + 1 < names.size() ? O_PATH | O_DIRECTORY : flags;
    UniqueFd next(::openat(at.valid() ? at.get() : folder, names[i].c_str(),
                           WithAlways(wanted | O_NOFOLLOW)));
    // O_DIRECTORY makes of a link what is no folder.
    struct stat info = {};
    if (!next.valid()) {
      const int error = errno;
      const bool is_link = ::fstatat(at.valid() ? at.get() : folder, names[i].c_str(), &info,
                                     AT_SYMLINK_NOFOLLOW) == 0 &&
                           S_ISLNK(info.st_mode);
      return is_link ? LeadsOut(path) : Failure(error, path);
    }
    if (::fstat(next.get(), &info) != 0) return Failure(errno, path);
    const bool is_mount = mounts == Mounts::kRefused && info.st_dev != top.st_dev;
    if (is_mount || S_ISLNK(info.st_mode)) return LeadsOut(path);
    at = std::move(next);
  }
  if (!at.valid()) return LeadsOut(path);
  return at;
}

}  // namespace muster
