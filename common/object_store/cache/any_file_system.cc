#include "common/object_store/cache/any_file_system.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/object_store/aws_settings.h"
#include "common/object_store/cache/block_cache.h"
#include "common/object_store/cache/cached_file_system.h"
#include "common/object_store/remote_file_system.h"
#include "common/object_store/remote_path.h"

namespace muster {
namespace {

absl::StatusOr<std::string> CacheFolder(const std::string& given) {
  if (!given.empty()) return given;
  if (const std::string named = ProcessEnvironment("MUSTER_DATA_CACHE"); !named.empty())
    return named;
  if (const std::string cache = ProcessEnvironment("XDG_CACHE_HOME"); !cache.empty())
    return absl::StrCat(cache, "/muster/blocks");
  if (const std::string home = ProcessEnvironment("HOME"); !home.empty())
    return absl::StrCat(home, "/.cache/muster/blocks");
  return absl::FailedPreconditionError(
      "no folder for the cache of remote data: set MUSTER_DATA_CACHE, XDG_CACHE_HOME or HOME");
}

}  // namespace

struct AnyFileSystem::Remote {
  explicit Remote(AwsSettings settings) : files(std::move(settings)) {}

  RealClock clock;
  RemoteFileSystem files;
  std::unique_ptr<BlockCache> cache;
  std::unique_ptr<CachedFileSystem> cached;  // last: its threads use the others
};

AnyFileSystem::AnyFileSystem(FileSystem& local, AnyFileSystemOptions options)
    : local_(local), options_(std::move(options)) {}

AnyFileSystem::~AnyFileSystem() = default;

absl::StatusOr<AnyFileSystem::Remote*> AnyFileSystem::TheRemote() {
  MutexLock lock(mutex_);
  if (remote_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(AwsSettings settings, LoadAwsSettings(ProcessEnvironment, local_));
    BlockCacheOptions cache;
    MUSTER_ASSIGN_OR_RETURN(cache.folder, CacheFolder(options_.cache_folder));
    cache.max_bytes = options_.cache_bytes;
    Log(LogLevel::kInfo, "data_cache", {{"folder", cache.folder}, {"most_bytes", cache.max_bytes}});
    auto remote = std::make_unique<Remote>(std::move(settings));
    MUSTER_ASSIGN_OR_RETURN(remote->cache, BlockCache::Open(std::move(cache), remote->clock));
    remote->cached =
        std::make_unique<CachedFileSystem>(remote->files, remote->files, *remote->cache);
    remote_ = std::move(remote);
  }
  return remote_.get();
}

absl::StatusOr<FileSystem*> AnyFileSystem::Of(const std::string& path) {
  if (!IsRemotePath(path)) return &local_;
  MUSTER_ASSIGN_OR_RETURN(Remote* const remote, TheRemote());
  return remote->cached.get();
}

absl::StatusOr<std::unique_ptr<WritableFile>> AnyFileSystem::CreateExclusive(
    const std::string& path, uint32_t mode) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->CreateExclusive(path, mode);
}

absl::StatusOr<std::string> AnyFileSystem::ReadFile(const std::string& path, uint64_t max_bytes) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->ReadFile(path, max_bytes);
}

absl::StatusOr<uint64_t> AnyFileSystem::ReadAt(const std::string& path, uint64_t offset,
                                               char* buffer, uint64_t buffer_bytes) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->ReadAt(path, offset, buffer, buffer_bytes);
}

absl::StatusOr<uint64_t> AnyFileSystem::FileSize(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->FileSize(path);
}

absl::StatusOr<bool> AnyFileSystem::Exists(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->Exists(path);
}

absl::StatusOr<std::vector<FileInfo>> AnyFileSystem::List(const std::string& directory) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(directory));
  return files->List(directory);
}

absl::Status AnyFileSystem::MakeDirectories(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->MakeDirectories(path);
}

absl::Status AnyFileSystem::Rename(const std::string& from, const std::string& to) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(from));
  return files->Rename(from, to);
}

absl::Status AnyFileSystem::SyncDirectory(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->SyncDirectory(path);
}

absl::Status AnyFileSystem::RemoveFile(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->RemoveFile(path);
}

absl::Status AnyFileSystem::RemoveTree(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
  return files->RemoveTree(path);
}

void AnyFileSystem::WillRead(const std::string& path, uint64_t offset, uint64_t bytes) {
  if (!IsRemotePath(path)) return;
  const absl::StatusOr<Remote*> remote = TheRemote();
  if (remote.ok()) (*remote)->cached->WillRead(path, offset, bytes);
}

}  // namespace muster
