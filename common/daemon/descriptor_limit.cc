#include "common/daemon/descriptor_limit.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<uint64_t> RaiseDescriptorLimit(absl::string_view program, uint64_t least,
                                              uint64_t wanted) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(absl::StrCat("getrlimit(RLIMIT_NOFILE): ", ::strerror(errno)));
  }
  const rlim_t reach = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur < reach) {
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = reach;
    // Not granted: what held before still does.
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  if (limit.rlim_cur >= least) return limit.rlim_cur;
  return absl::FailedPreconditionError(absl::StrCat(
      program, " may open only ", limit.rlim_cur, " files and connections, and needs ", least,
      ": raise the hard bound (`ulimit -Hn`, LimitNOFILE= of a systemd unit, --ulimit nofile= of a "
      "container)"));
}

}  // namespace muster
