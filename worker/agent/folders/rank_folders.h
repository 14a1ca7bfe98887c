// The folders of this worker's ranks, one each by the rank's name.
//
// A folder that a rank leaves with nothing in it but empty logs is kept for a later rank, under
// another name meanwhile: a file system takes ten times as long to make and delete three inodes as
// to rename one, and short commands come by the hundred. All others go into the trash. One thread.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/base/trash.h"

namespace muster::worker {

class RankFolders {
 public:
  // Folders kept for later; more are removed.
  static constexpr size_t kMaxSpare = 64;

  // `fs` and `trash` outlive this.
  RankFolders(FileSystem& fs, Trash& trash, std::string root)
      : fs_(fs), trash_(trash), root_(std::move(root)) {}

  // Makes the root, removes what an earlier agent kept, and returns the ranks whose folders are
  // there.
  absl::StatusOr<std::vector<RankKey>> Open();
  std::string Path(const RankKey& key) const;
  // The rank's folder; OK as well when it is there. UNAVAILABLE: one that Remove left is there.
  absl::StatusOr<std::string> Make(const RankKey& key);
  // The rank and its logs are done with. Not OK: its folder stays where it is until it is removed.
  absl::Status Remove(const RankKey& key);

 private:
  std::string SparePath(size_t number) const;
  bool HoldsEmptyLogsOnly(const std::string& path);
  // UNAVAILABLE: the trash could not take what is there, and removes it where it is.
  absl::Status CheckMoved(const std::string& path);

  FileSystem& fs_;
  Trash& trash_;
  const std::string root_;
  std::vector<std::string> spare_;
  size_t next_spare_ = 0;
  std::set<std::string> unmoved_;  // paths that the trash could not take
};

}  // namespace muster::worker
