#include "cli/local/log_bound.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::cli {

absl::Status BoundLog(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<uint64_t> size = fs.FileSize(path);
  if (absl::IsNotFound(size.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(size.status());
  if (*size <= kMaxLogBytes) return absl::OkStatus();
  std::string kept(kMaxLogBytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const size_t count,
                          fs.ReadAt(path, *size - kept.size(), kept.data(), kept.size()));
  kept.resize(count);
  // Cut before the rest is written: a full disk has room for it then.
  if (::truncate(path.c_str(), 0) != 0) {
    return absl::UnavailableError(absl::StrCat(path, ": ", ::strerror(errno)));
  }
  return WriteFileAtomically(fs, absl::StrCat(path, ".1"), kept, 0600);
}

}  // namespace muster::cli
