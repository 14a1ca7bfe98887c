#include "common/object_store/cache/any_file_system.h"

#include <errno.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/fs/cache_folder.h"
#include "common/fs/errno_status.h"
#include "common/object_store/aws_settings.h"
#include "common/object_store/cache/block_cache.h"
#include "common/object_store/cache/cached_file_system.h"
#include "common/object_store/remote_file_system.h"
#include "common/object_store/remote_path.h"

namespace muster {
namespace {

constexpr uint64_t kDefaultCacheBytes = uint64_t{100} << 30;

absl::StatusOr<uint64_t> CacheBytes(uint64_t given) {
  if (given > 0) return given;
  const std::string text = ProcessEnvironment("MUSTER_DATA_CACHE_BYTES");
  uint64_t bytes = kDefaultCacheBytes;
  if (!text.empty() && (!absl::SimpleAtoi(text, &bytes) || bytes == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("MUSTER_DATA_CACHE_BYTES is no number of bytes: '", text, "'"));
  }
  return bytes;
}

}  // namespace

struct AnyFileSystem::Remote {
  Remote(AwsSettings settings, RemoteOptions options)
      : files(std::move(settings), std::move(options)) {}

  FileSystem& door() { return cached == nullptr ? static_cast<FileSystem&>(files) : *cached; }

  RealClock clock;
  RemoteFileSystem files;
  std::unique_ptr<BlockCache> cache;
  std::unique_ptr<CachedFileSystem> cached;  // last: its threads use the others
};

AnyFileSystem::AnyFileSystem(FileSystem& local, AnyFileSystemOptions options)
    : local_(local), options_(std::move(options)) {}

AnyFileSystem::~AnyFileSystem() { Cancel(); }

ReadingBytes AnyFileSystem::ReadingBytesOf(const std::string& path) {
  if (!IsRemotePath(path)) return {};
  const CachedFileSystemOptions options;
  return {static_cast<uint64_t>(options.prefetch_threads) * options.block_bytes,
          options.block_bytes};
}

absl::StatusOr<AnyFileSystem::Remote*> AnyFileSystem::TheRemote() {
  MutexLock lock(mutex_);
  if (remote_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(AwsSettings settings, LoadAwsSettings(ProcessEnvironment, local_));
    BlockCacheOptions options;
    options.folder = options_.cache_folder.empty() ? CacheFolder("MUSTER_DATA_CACHE", "blocks")
                                                   : options_.cache_folder;
    MUSTER_ASSIGN_OR_RETURN(options.max_bytes, CacheBytes(options_.cache_bytes));
    RemoteOptions remote_options;
    remote_options.retry.operation_deadline = options_.remote_deadline;
    remote_options.retry.unanswered_deadline = options_.remote_unanswered_deadline;
    auto remote = std::make_unique<Remote>(std::move(settings), std::move(remote_options));
    const std::string folder = options.folder;
    absl::StatusOr<std::unique_ptr<BlockCache>> cache =
        BlockCache::Open(std::move(options), remote->clock);
    if (cache.ok()) {
      remote->cache = *std::move(cache);
      remote->cached =
          std::make_unique<CachedFileSystem>(remote->files, remote->files, *remote->cache);
    } else {
      Log(LogLevel::kWarning, "data_cache_unusable",
          {{"folder", folder},
           {"error", cache.status().message()},
           {"note",
            "remote data are read again each time; MUSTER_DATA_CACHE names another folder"}});
    }
    if (is_cancelled_) remote->door().Cancel();
    remote_ = std::move(remote);
  }
  return remote_.get();
}

absl::StatusOr<FileSystem*> AnyFileSystem::Of(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(options_.before_call());
  if (!IsRemotePath(path)) return &local_;
  MUSTER_ASSIGN_OR_RETURN(Remote* const remote, TheRemote());
  return &remote->door();
}

absl::StatusOr<std::string> AnyFileSystem::KeepQuery(const std::string& path) {
  if (!IsRemotePath(path)) return path;
  MUSTER_ASSIGN_OR_RETURN(Remote* const remote, TheRemote());
  return remote->files.KeepQuery(path);
}

absl::StatusOr<FileVersion> AnyFileSystem::Version(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(options_.before_call());
  if (IsRemotePath(path)) {
    MUSTER_ASSIGN_OR_RETURN(Remote* const remote, TheRemote());
    return remote->files.Version(path);
  }
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return FileErrno(errno, "stat", path);
  return FileVersion{static_cast<uint64_t>(info.st_size),
                     absl::StrCat(info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec)};
}

absl::StatusOr<uint64_t> AnyFileSystem::ReadVersion(const std::string& path,
                                                    const FileVersion& version, uint64_t offset,
                                                    char* buffer, uint64_t buffer_bytes) {
  MUSTER_RETURN_IF_ERROR(options_.before_call());
  if (IsRemotePath(path)) {
    MUSTER_ASSIGN_OR_RETURN(Remote* const remote, TheRemote());
    return remote->files.ReadVersion(path, version, offset, buffer, buffer_bytes);
  }
  MUSTER_ASSIGN_OR_RETURN(const FileVersion now, Version(path));
  if (!(now == version))
    return absl::FailedPreconditionError(absl::StrCat(path, " was changed meanwhile"));
  return local_.ReadAt(path, offset, buffer, buffer_bytes);
}

void AnyFileSystem::Cancel() {
  MutexLock lock(mutex_);
  is_cancelled_ = true;
  if (remote_ != nullptr) remote_->door().Cancel();
}

std::string AnyFileSystem::Trouble() {
  MutexLock lock(mutex_);
  return remote_ == nullptr ? "" : remote_->files.Trouble();
}

void AnyFileSystem::WillRead(const std::string& path, uint64_t offset, uint64_t bytes) {
  if (!IsRemotePath(path)) return;
  const absl::StatusOr<Remote*> remote = TheRemote();
  if (remote.ok() && (*remote)->cached != nullptr) (*remote)->cached->WillRead(path, offset, bytes);
}

}  // namespace muster
