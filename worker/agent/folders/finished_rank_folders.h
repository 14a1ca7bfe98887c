// Folders of ranks that have ended: carries the rest of their logs into the spool, and removes each
// once the controller has acknowledged all of it. Also those that an earlier agent left. One
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/folders/rank_folders.h"
#include "worker/agent/telemetry/log_tailer.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

class FinishedRankFolders {
 public:
  // All outlive this.
  FinishedRankFolders(Spool& spool, RankFolders& folders) : spool_(spool), rank_folders_(folders) {}

  // Opens the folders: takes every rank's that is there, when no rank runs yet, and forgets marks
  // of ranks that have none. Errors: the folder of ranks' folders cannot be made or listed.
  absl::Status AdoptLeftovers();
  // The rank is gone for good. `silent`: it wrote nothing, so that its logs need not be read.
  void Add(const RankKey& key, bool silent = false);
  // Nobody is left to send the logs to: the next Work removes all folders.
  void Abandon();
  // Goes on where the disk or the bound of one turn stopped it. True when there is more to do at
  // once.
  bool Work();

  bool Has(const RankKey& key) const { return folders_.contains(key); }
  size_t size() const { return folders_.size(); }

 private:
  struct Folder {
    LogTailer logs;
    std::optional<SpoolPosition>
        spooled_up_to;  // all of its logs are in the spool, before this position
  };

  // True when there is more to do at once.
  bool WorkOn(const RankKey& key, Folder& folder);

  Spool& spool_;
  RankFolders& rank_folders_;
  std::map<RankKey, Folder> folders_;
};

}  // namespace muster::worker
