#include "worker/agent/folders/rank_folders.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/list_some.h"
#include "worker/agent/base/rank_files.h"
#include "worker/agent/telemetry/log_tailer.h"

namespace muster::worker {
namespace {

constexpr char kSparePrefix[] = "spare-";

}  // namespace

absl::StatusOr<std::vector<RankKey>> RankFolders::Open() {
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(root_));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(root_));
  std::vector<RankKey> ranks;
  for (const FileInfo& file : files) {
    const std::optional<RankKey> key = ParseRankFolderName(file.name);
    if (key.has_value() && file.is_directory) {
      ranks.push_back(*key);
    } else if (key.has_value() || absl::StartsWith(file.name, kSparePrefix)) {
      // A spare folder, or what a job put in its folder's place.
      trash_.Throw(absl::StrCat(root_, "/", file.name)).IgnoreError();
    }
  }
  return ranks;
}

std::string RankFolders::Path(const RankKey& key) const {
  return absl::StrCat(root_, "/", RankFolderName(key));
}

std::string RankFolders::SparePath(size_t number) const {
  return absl::StrCat(root_, "/", kSparePrefix, number);
}

absl::StatusOr<std::string> RankFolders::Make(const RankKey& key) {
  std::string path = Path(key);
  MUSTER_RETURN_IF_ERROR(CheckMoved(path));
  while (!spare_.empty()) {
    const std::string spare = std::move(spare_.back());
    spare_.pop_back();
    const absl::Status renamed = fs_.Rename(spare, path);
    if (renamed.ok()) return path;
    // Gone, or the rank's folder is there with something in it.
    trash_.Throw(spare).IgnoreError();
    if (absl::IsAlreadyExists(renamed)) return path;
  }
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(path));
  return path;
}

bool RankFolders::HoldsEmptyLogsOnly(const std::string& path) {
  const absl::StatusOr<UniqueFd> folder = OpenRankFolder(path);
  if (!folder.ok()) return false;
  // The two logs; a third entry is one too many.
  const absl::StatusOr<std::vector<FileInfo>> files = ListSome(*folder, path, 3);
  return files.ok() && std::all_of(files->begin(), files->end(), [](const FileInfo& file) {
           const bool is_log = file.name == kStdoutFile || file.name == kStderrFile;
           return is_log && !file.is_directory && file.size_bytes == 0;
         });
}

absl::Status RankFolders::Remove(const RankKey& key) {
  const std::string path = Path(key);
  if (spare_.size() < kMaxSpare && HoldsEmptyLogsOnly(path)) {
    const std::string spare = SparePath(next_spare_++);
    if (fs_.Rename(path, spare).ok()) {
      spare_.push_back(spare);
      return absl::OkStatus();
    }
  }
  const absl::Status thrown = trash_.Throw(path);
  if (!thrown.ok()) unmoved_.insert(path);
  return thrown;
}

absl::Status RankFolders::CheckMoved(const std::string& path) {
  const auto unmoved = unmoved_.find(path);
  if (unmoved == unmoved_.end()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, fs_.Exists(path));
  if (is_there) {
    return absl::UnavailableError(
        absl::StrCat(path,
                     ": the folder of an earlier rank is here, could not be moved aside, and "
                     "is to be removed"));
  }
  unmoved_.erase(unmoved);
  return absl::OkStatus();
}

}  // namespace muster::worker
