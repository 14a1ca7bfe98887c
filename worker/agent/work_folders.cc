#include "worker/agent/work_folders.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {

WorkFolders::WorkFolders(FileSystem& fs, Trash& trash, std::string root, std::string cache,
                         UploadSource source, std::shared_ptr<Mailbox> mailbox)
    : fs_(fs),
      trash_(trash),
      root_(std::move(root)),
      source_(std::move(source)),
      cache_(fs, std::move(cache), source_.fetch),
      thread_(std::move(mailbox)) {}

WorkFolders::~WorkFolders() {
  if (source_.cancel) source_.cancel();
}

std::string WorkFolders::PathOf(const v1::Fence& fence) const {
  return absl::StrCat(root_, "/job-", fence.job_id(), ".a", fence.attempt(), ".g",
                      fence.generation());
}

void WorkFolders::Prepare(const v1::Fence& fence, const std::string& sha256,
                          std::function<void(absl::Status)> done) {
  const std::string path = PathOf(fence);
  prepared_.insert(path);
  thread_.Enqueue([this, path, sha256, done = std::move(done)]() -> BackgroundThread::Completion {
    const auto make = [&]() -> absl::Status {
      MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(root_));
      MUSTER_RETURN_IF_ERROR(trash_.Throw(path));
      return cache_.Unpack(sha256, path);
    };
    return [done, status = make()] { done(status); };
  });
}

void WorkFolders::Release(const v1::Fence& fence) {
  const std::string path = PathOf(fence);
  if (prepared_.erase(path) == 0) return;
  thread_.Enqueue([this, path]() -> BackgroundThread::Completion {
    trash_.Throw(path).IgnoreError();
    return nullptr;
  });
}

}  // namespace muster::worker
