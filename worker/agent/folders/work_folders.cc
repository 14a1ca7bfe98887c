#include "worker/agent/folders/work_folders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/upload/unpack_folder.h"

namespace muster::worker {

WorkFolders::WorkFolders(FileSystem& fs, Trash& trash, std::string root, std::string cache,
                         FetchUpload fetch, std::shared_ptr<Mailbox> mailbox)
    : fs_(fs),
      trash_(trash),
      root_(std::move(root)),
      fetch_(std::move(fetch)),
      cache_(fs, std::move(cache)),
      thread_(mailbox),
      fetch_thread_(std::move(mailbox)) {}

WorkFolders::~WorkFolders() {
  for (auto& [sha256, fetch] : fetches_) fetch.request_stop();
}

std::string WorkFolders::PathOf(const v1::Fence& fence) const {
  return absl::StrCat(root_, "/job-", fence.job_id(), ".a", fence.attempt(), ".g",
                      fence.generation());
}

absl::Status WorkFolders::Unpack(const std::string& archive, const std::string& path) {
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(root_));
  MUSTER_RETURN_IF_ERROR(trash_.Throw(path));
  const absl::Status unpacked = UnpackFolder(archive, path);
  if (!unpacked.ok()) fs_.RemoveTree(path).IgnoreError();
  return unpacked;
}

void WorkFolders::Prepare(const v1::Fence& fence, const std::string& sha256,
                          std::function<void(absl::Status)> done) {
  const std::string path = PathOf(fence);
  folders_[path] = {.sha256 = sha256, .done = std::move(done)};
  thread_.Enqueue([this, path, sha256]() -> BackgroundThread::Completion {
    const absl::StatusOr<std::string> archive = cache_.Get(sha256);
    if (absl::IsNotFound(archive.status())) return [this, path] { AwaitFetch(path); };
    const absl::Status status = archive.ok() ? Unpack(*archive, path) : archive.status();
    return [this, path, status] { Finish(path, status); };
  });
}

void WorkFolders::AwaitFetch(const std::string& path) {
  const auto folder = folders_.find(path);
  if (folder == folders_.end()) return;
  folder->second.awaits_fetch = true;
  const std::string& sha256 = folder->second.sha256;
  const auto [fetch, is_first] = fetches_.try_emplace(sha256);
  if (!is_first) return;
  fetch_thread_.Enqueue(
      [this, sha256, stop = fetch->second.get_token()]() -> BackgroundThread::Completion {
        if (stop.stop_requested()) return nullptr;
        const auto archive = std::make_shared<const absl::StatusOr<std::string>>(
            fetch_(sha256, stop, [this] { ++pieces_; }));
        return [this, sha256, stop, archive] {
          if (!stop.stop_requested()) OnFetched(sha256, archive);
        };
      });
}

void WorkFolders::OnFetched(const std::string& sha256, const Archive& archive) {
  fetches_.erase(sha256);
  const auto kept = std::make_shared<absl::Status>();  // of the thread
  thread_.Enqueue([this, sha256, archive, kept]() -> BackgroundThread::Completion {
    *kept = archive->ok() ? cache_.Put(sha256, **archive) : archive->status();
    return nullptr;
  });
  for (auto& [path, folder] : folders_) {
    if (!folder.awaits_fetch || folder.sha256 != sha256) continue;
    folder.awaits_fetch = false;
    thread_.Enqueue([this, path = path, archive, kept]() -> BackgroundThread::Completion {
      const absl::Status status = kept->ok() ? Unpack(**archive, path) : *kept;
      return [this, path, status] { Finish(path, status); };
    });
  }
}

void WorkFolders::Finish(const std::string& path, const absl::Status& status) {
  const auto folder = folders_.find(path);
  if (folder == folders_.end()) return;
  // It may release the folder.
  const auto done = std::exchange(folder->second.done, nullptr);
  done(status);
}

std::optional<uint64_t> WorkFolders::PiecesFetched(const v1::Fence& fence) const {
  const auto folder = folders_.find(PathOf(fence));
  if (folder == folders_.end() || !folder->second.awaits_fetch) return std::nullopt;
  return pieces_;
}

void WorkFolders::Release(const v1::Fence& fence) {
  const std::string path = PathOf(fence);
  const auto released = folders_.extract(path);
  if (released.empty()) return;
  thread_.Enqueue([this, path]() -> BackgroundThread::Completion {
    trash_.Throw(path).IgnoreError();
    return nullptr;
  });
  const std::string& sha256 = released.mapped().sha256;
  const bool is_awaited = std::any_of(folders_.begin(), folders_.end(), [&](const auto& folder) {
    return folder.second.awaits_fetch && folder.second.sha256 == sha256;
  });
  if (is_awaited) return;
  auto fetch = fetches_.extract(sha256);
  if (!fetch.empty()) fetch.mapped().request_stop();
}

}  // namespace muster::worker
