#include "worker/agent/base/rank_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/fs/errno_status.h"
#include "common/fs/open_beneath.h"

namespace muster::worker {
namespace {

// `below` is a path from the folder of all ranks.
absl::StatusOr<UniqueFd> OpenBelowRanks(const std::string& folder, const std::string& below,
                                        int flags) {
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd ranks, OpenFolder(folder.substr(0, folder.rfind('/'))));
  absl::StatusOr<UniqueFd> fd = OpenBeneath(ranks.get(), below, flags, Links::kNone);
  if (!absl::IsPermissionDenied(fd.status())) return fd;
  return absl::NotFoundError(absl::StrCat(below, " is no rank's own: ", fd.status().message()));
}

std::string NameOf(const std::string& folder) { return folder.substr(folder.rfind('/') + 1); }

}  // namespace

absl::StatusOr<UniqueFd> OpenRankFolder(const std::string& folder) {
  return OpenBelowRanks(folder, NameOf(folder), O_RDONLY | O_DIRECTORY);
}

absl::StatusOr<RankFile> OpenRankFile(const std::string& folder, const std::string& name,
                                      int flags) {
  const std::string below = absl::StrCat(NameOf(folder), "/", name);
  MUSTER_ASSIGN_OR_RETURN(UniqueFd fd, OpenBelowRanks(folder, below, flags));
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat(folder, "/", name, " is no regular file"));
  }
  const int64_t written_ms = absl::ToUnixMillis(absl::TimeFromTimespec(info.st_mtim));
  return RankFile{std::move(fd), static_cast<uint64_t>(info.st_size), written_ms};
}

absl::StatusOr<uint64_t> ReadAt(const RankFile& file, uint64_t offset, char* buffer,
                                uint64_t bytes) {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(file.fd.get(), buffer + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(absl::StrCat("cannot read a rank's file: ", ::strerror(errno)));
    }
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

absl::StatusOr<std::string> ReadEnd(const RankFile& file, uint64_t most) {
  const uint64_t bytes = std::min(file.size, most);
  std::string text(bytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                          ReadAt(file, file.size - bytes, text.data(), text.size()));
  text.resize(got);
  return text;
}

absl::Status RemoveRankFile(const std::string& folder, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd opened, OpenRankFolder(folder));
  if (::unlinkat(opened.get(), name.c_str(), 0) == 0) return absl::OkStatus();
  return FileErrno(errno, "remove", absl::StrCat(folder, "/", name));
}

}  // namespace muster::worker
