#include "worker/agent/folders/finished_rank_folders.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {

absl::Status FinishedRankFolders::AdoptLeftovers() {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<RankKey> ranks, rank_folders_.Open());
  for (const RankKey& key : ranks) Add(key);
  for (const RankKey& key : spool_.MarkedRanks()) {
    if (!folders_.contains(key)) spool_.Forget(key);
  }
  return absl::OkStatus();
}

void FinishedRankFolders::Add(const RankKey& key, bool silent) {
  Folder folder{LogTailer(spool_, key, rank_folders_.Path(key)), std::nullopt};
  if (silent) folder.spooled_up_to = spool_.end();
  folders_.emplace(key, std::move(folder));
}

void FinishedRankFolders::Abandon() {
  for (auto& [key, folder] : folders_) folder.spooled_up_to = SpoolPosition();
}

bool FinishedRankFolders::Work() {
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
    // Where the folder stays, so do the marks: the next agent finds its logs, and that they were
    // sent.
    if (rank_folders_.Remove(key).ok()) spool_.Forget(key);
    it = folders_.erase(it);
  }
  return more;
}

bool FinishedRankFolders::WorkOn(const RankKey& key, Folder& folder) {
  if (folder.spooled_up_to.has_value()) return false;
  const absl::StatusOr<bool> more = folder.logs.Pump(/*final=*/true);
  if (!more.ok()) {
    Log(LogLevel::kWarning, "logs_not_spooled",
        {{"folder", rank_folders_.Path(key)}, {"error", more.status().ToString()}});
    return false;
  }
  if (!*more) folder.spooled_up_to = spool_.end();
  return *more;
}

}  // namespace muster::worker
