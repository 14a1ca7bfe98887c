// Opens what lies beneath a folder that is held open, whatever names are moved or planted there
// meanwhile: no symbolic link and no `..` leads out of it, nor a mount unless that is allowed. The
// kernel resolves the path (openat2); one that lacks the call is stood in for by a walk that
// refuses every link. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster {

// A folder by its path, to look beneath. The path is the caller's own: its links are followed.
absl::StatusOr<UniqueFd> OpenFolder(const std::string& path);

enum class Links {
  kInside,  // those that stay beneath are followed
  kNone,    // none is
};

enum class Mounts { kRefused, kEntered };

// `path` is relative; `flags` are open's, without O_CREAT (O_CLOEXEC and O_NONBLOCK are added: a
// FIFO must not hang the caller). PERMISSION_DENIED: it leads out, over a link that is not
// followed, or through a mount; otherwise file_system.h's codes.
absl::StatusOr<UniqueFd> OpenBeneath(int folder, const std::string& path, int flags, Links links,
                                     Mounts mounts = Mounts::kRefused);

namespace internal {
// The stand-in: follows no links.
absl::StatusOr<UniqueFd> WalkBeneath(int folder, const std::string& path, int flags,
                                     Mounts mounts = Mounts::kRefused);
}  // namespace internal

}  // namespace muster
