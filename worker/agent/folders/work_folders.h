// The folders that commands with an upload run in: a fresh one for each attempt on this worker,
// unpacked before its ranks start and removed when the last of them is gone. Lives on the event
// loop; the work itself is done on two threads of its own. One of them fetches the archives that
// are not kept here, one at a time, so that folders of those that are do not wait for any fetch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "muster/v1/common.pb.h"
#include "worker/agent/base/background_thread.h"
#include "worker/agent/base/trash.h"
#include "worker/agent/folders/upload_cache.h"

namespace muster::worker {

// Brings a whole archive, at most kMaxUploadBytes; what it brings need not be right. Calls
// `on_piece` as it gets on, and ends soon after `stop`. Blocking.
using FetchUpload = std::function<absl::StatusOr<std::string>(
    const std::string& sha256, const std::stop_token& stop, const std::function<void()>& on_piece)>;

class WorkFolders {
 public:
  // `root`: the folders, `cache`: the archives; both are this object's alone. `fs` and `trash`
  // outlive it.
  WorkFolders(FileSystem& fs, Trash& trash, std::string root, std::string cache, FetchUpload fetch,
              std::shared_ptr<Mailbox> mailbox);
  ~WorkFolders();

  // Takes away what an earlier life left; what does not go is the trash's care.
  void ClearLeftovers() { trash_.Throw(root_).IgnoreError(); }

  std::string PathOf(const v1::Fence& fence) const;
  // `done` comes on a later turn; not at all when the agent ends, or it is released, before.
  // INVALID_ARGUMENT, DATA_LOSS: the archive is no good; otherwise the errors of the fetch and of
  // the disk. After an error there is no folder.
  void Prepare(const v1::Fence& fence, const std::string& sha256,
               std::function<void(absl::Status)> done);
  // While the attempt waits for its archive to be fetched: how many pieces, of any archive, have
  // been fetched so far. It grows as long as the fetch, or one before it, gets on.
  std::optional<uint64_t> PiecesFetched(const v1::Fence& fence) const;
  // Nobody of the attempt is here any more. A fetch that no other one waits for is ended. Nothing
  // happens unless it was prepared.
  void Release(const v1::Fence& fence);

 private:
  struct Folder {
    std::string sha256;
    std::function<void(absl::Status)> done;
    bool awaits_fetch = false;
  };
  using Archive = std::shared_ptr<const absl::StatusOr<std::string>>;

  absl::Status Unpack(const std::string& archive, const std::string& path);
  void AwaitFetch(const std::string& path);
  // Keeps it, and unpacks the folders that wait for it.
  void OnFetched(const std::string& sha256, const Archive& archive);
  void Finish(const std::string& path, const absl::Status& status);

  FileSystem& fs_;
  Trash& trash_;
  const std::string root_;
  const FetchUpload fetch_;
  UploadCache cache_;                                // of the first thread
  std::map<std::string, Folder> folders_;            // by path, until they are released
  std::map<std::string, std::stop_source> fetches_;  // that somebody waits for, by hash
  std::atomic<uint64_t> pieces_ = 0;
  BackgroundThread thread_;
  BackgroundThread fetch_thread_;  // last: it uses all of the above, as does the other
};

}  // namespace muster::worker
