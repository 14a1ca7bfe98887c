#include "worker/data/index/index_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/fs/file_lock.h"
#include "common/fs/list_some.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kUseIsNotedEvery = absl::Hours(24);
constexpr absl::Duration kUnusedIsKept = absl::Hours(30 * 24);
constexpr size_t kMostRemovedSets = 100;   // in one call
constexpr size_t kMostLookedAt = 100'000;  // files of the folder
constexpr size_t kNameBytes = 32;          // hex digits

// The data set that the file belongs to; empty: it is no file of this folder's kind.
absl::string_view SetOfFile(absl::string_view file) {
  const absl::string_view name = file.substr(0, file.find('.'));
  const bool is_name = name.size() == kNameBytes && name.size() < file.size() &&
                       std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
  return is_name ? name : absl::string_view();
}

// Removes a data set's files unless one of them is in use; `lock` is the path of its lock.
// Returns whether it did.
bool RemoveSet(const std::vector<std::string>& paths, const std::string& lock) {
  const absl::StatusOr<std::optional<FileLock>> making = FileLock::Try(lock);
  if (!making.ok() || !making->has_value()) return false;
  std::vector<UniqueFd> held;  // until all are gone
  for (const std::string& path : paths) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd.valid() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
    // Somebody may have opened it and gone, or made it anew.
    if (AgeOfFile(path) < kUnusedIsKept) return false;
    held.push_back(std::move(fd));
  }
  for (const std::string& path : paths) ::unlink(path.c_str());
  ::unlink(lock.c_str());
  return true;
}

}  // namespace

absl::Duration AgeOfFile(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return absl::ZeroDuration();
  return absl::Now() - absl::TimeFromTimespec(info.st_mtim);
}

void NoteUseOfIndex(const std::string& path) {
  if (AgeOfFile(path) < kUseIsNotedEvery) return;
  // Of another user's the time stays as it is.
  (void)!::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

void RemoveUnusedIndexes(const std::string& folder, absl::string_view kept_name) {
  const absl::StatusOr<std::vector<FileInfo>> files = ListSome(folder, kMostLookedAt);
  if (!files.ok()) return;
  std::map<std::string, std::vector<std::string>> sets;  // the files of each, without its lock
  for (const FileInfo& file : *files) {
    const absl::string_view name = SetOfFile(file.name);
    if (name.empty() || name == kept_name || file.is_directory || file.is_link) continue;
    std::vector<std::string>& paths = sets[std::string(name)];
    if (!absl::EndsWith(file.name, ".lock")) paths.push_back(absl::StrCat(folder, "/", file.name));
  }
  size_t removed = 0;
  for (const auto& [name, paths] : sets) {
    if (removed == kMostRemovedSets) break;
    const std::string lock = absl::StrCat(folder, "/", name, ".lock");
    const auto is_old = [](const std::string& path) { return AgeOfFile(path) >= kUnusedIsKept; };
    const bool are_old =
        paths.empty() ? is_old(lock) : std::all_of(paths.begin(), paths.end(), is_old);
    if (are_old && RemoveSet(paths, lock)) ++removed;
  }
  if (removed == 0) return;
  Log(LogLevel::kInfo, "unused_indexes_removed", {{"folder", folder}, {"data_sets", removed}});
}

}  // namespace muster::worker
