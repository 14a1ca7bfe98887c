// The folders that commands with an upload run in: a fresh one for each attempt on this worker,
// unpacked before its ranks start and removed when the last of them is gone. Lives on the event
// loop; the work itself is done on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"
#include "muster/v1/common.pb.h"
#include "worker/agent/background_thread.h"
#include "worker/agent/trash.h"
#include "worker/agent/upload_cache.h"

namespace muster::worker {

// Where archives come from. `cancel` ends a fetch that is under way; any thread.
struct UploadSource {
  UploadCache::Fetch fetch;
  std::function<void()> cancel;
};

class WorkFolders {
 public:
  // `root`: the folders, `cache`: the archives; both are this object's alone. `fs` and `trash`
  // outlive it.
  WorkFolders(FileSystem& fs, Trash& trash, std::string root, std::string cache,
              UploadSource source, std::shared_ptr<Mailbox> mailbox);
  ~WorkFolders();

  // Takes away what an earlier life left; what does not go is the trash's care.
  void ClearLeftovers() { trash_.Throw(root_).IgnoreError(); }

  std::string PathOf(const v1::Fence& fence) const;
  // `done` comes on a later turn; not at all when the agent ends before.
  void Prepare(const v1::Fence& fence, const std::string& sha256,
               std::function<void(absl::Status)> done);
  // Nobody of the attempt is here any more. Nothing happens unless it was prepared.
  void Release(const v1::Fence& fence);

 private:
  FileSystem& fs_;
  Trash& trash_;
  const std::string root_;
  const UploadSource source_;
  UploadCache cache_;               // of the thread
  std::set<std::string> prepared_;  // paths
  BackgroundThread thread_;         // last: it uses all of the above
};

}  // namespace muster::worker
