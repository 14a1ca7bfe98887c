#include "worker/agent/finished_folders.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {

std::string FinishedFolders::Path(const RankKey& key) const {
  return absl::StrCat(root_, "/", RankFolderName(key));
}

absl::Status FinishedFolders::AdoptLeftovers() {
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(root_));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(root_));
  for (const FileInfo& file : files) {
    const std::optional<RankKey> key = ParseRankFolderName(file.name);
    if (key.has_value() && file.is_directory) Add(*key);
  }
  for (const RankKey& key : spool_.MarkedRanks()) {
    if (!folders_.contains(key)) spool_.Forget(key);
  }
  return absl::OkStatus();
}

void FinishedFolders::Add(const RankKey& key) {
  folders_.emplace(key, Folder{LogTailer(fs_, spool_, key, Path(key)), std::nullopt});
}

bool FinishedFolders::Work() {
  bool more = false;
  for (auto it = folders_.begin(); it != folders_.end();) {
    auto& [key, folder] = *it;
    more |= WorkOn(key, folder);
    const bool delivered =
        folder.spooled_up_to.has_value() &&
        (*folder.spooled_up_to <= spool_.acknowledged() || !spool_.HasUnacknowledged());
    if (!delivered) {
      ++it;
      continue;
    }
    if (const absl::Status removed = fs_.RemoveTree(Path(key)); !removed.ok()) {
      Log(LogLevel::kWarning, "rank_folder_not_removed", {{"error", removed.ToString()}});
      ++it;
      continue;
    }
    spool_.Forget(key);
    it = folders_.erase(it);
  }
  return more;
}

bool FinishedFolders::WorkOn(const RankKey& key, Folder& folder) {
  if (folder.spooled_up_to.has_value()) return false;
  const absl::StatusOr<bool> more = folder.logs.Pump(/*final=*/true);
  if (!more.ok()) {
    Log(LogLevel::kWarning, "logs_not_spooled",
        {{"folder", Path(key)}, {"error", more.status().ToString()}});
    return false;
  }
  if (!*more) folder.spooled_up_to = spool_.end();
  return *more;
}

}  // namespace muster::worker
