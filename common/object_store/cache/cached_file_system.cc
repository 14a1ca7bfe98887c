#include "common/object_store/cache/cached_file_system.h"

#include <string.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/object_store/cache/block_key.h"

namespace muster {

CachedFileSystem::CachedFileSystem(FileSystem& remote, VersionedFiles& versions, BlockCache& cache,
                                   CachedFileSystemOptions options)
    : remote_(remote),
      versions_(versions),
      cache_(cache),
      options_(options),
      prefetch_(
          options.prefetch_threads, options.max_hints,
          [this](const std::string& path, uint64_t block) { return PrefetchBlock(path, block); }) {}

CachedFileSystem::~CachedFileSystem() = default;

CachedFileSystem::Block CachedFileSystem::BlockOf(const std::string& path,
                                                  const FileVersion& version,
                                                  uint64_t number) const {
  const uint64_t begin = number * options_.block_bytes;
  return Block{path, version, number, std::min(options_.block_bytes, version.size_bytes - begin),
               BlockKeyOf(path, version, number, options_.block_bytes)};
}

absl::StatusOr<uint64_t> CachedFileSystem::ReadAt(const std::string& path, uint64_t offset,
                                                  char* buffer, uint64_t buffer_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const FileVersion version, versions_.Version(path));
  if (version.tag.empty()) return remote_.ReadAt(path, offset, buffer, buffer_bytes);
  if (offset >= version.size_bytes) return 0;
  const uint64_t wanted = std::min(buffer_bytes, version.size_bytes - offset);
  uint64_t done = 0;
  while (done < wanted) {
    const uint64_t at = offset + done;
    const Block block = BlockOf(path, version, at / options_.block_bytes);
    const uint64_t from = at % options_.block_bytes;
    const uint64_t part = std::min(wanted - done, block.bytes - from);
    if (cache_.Read(block.key, block.bytes, from, buffer + done, part)) {
      ++hits_;
    } else if (!cache_.MayStore()) {
      MUSTER_RETURN_IF_ERROR(ReadRemote(block, from, buffer + done, part));
    } else {
      const std::shared_ptr<const Flight> flight = GetBlock(block);
      MUSTER_RETURN_IF_ERROR(flight->status);
      ::memcpy(buffer + done, flight->bytes.data() + from, part);
    }
    done += part;
  }
  return done;
}

std::shared_ptr<const CachedFileSystem::Flight> CachedFileSystem::GetBlock(const Block& block) {
  std::shared_ptr<Flight> flight;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<Flight>& entry = flights_[block.key];
    if (entry != nullptr) {
      flight = entry;
      while (!flight->is_done) landed_.Wait(mutex_);
      return flight;
    }
    flight = entry = std::make_shared<Flight>();
  }
  absl::StatusOr<std::string> bytes = Fetch(block);
  {
    MutexLock lock(mutex_);
    flight->status = bytes.status();
    if (bytes.ok()) flight->bytes = *std::move(bytes);
    flight->is_done = true;
    flights_.erase(block.key);
  }
  landed_.NotifyAll();
  return flight;
}

absl::StatusOr<std::string> CachedFileSystem::Fetch(const Block& block) {
  // Another process may be at it: then it is on the disk once its lock is ours.
  const UniqueFd lock = cache_.LockForFetch(block.key, [this] { return is_cancelled_.load(); });
  std::string bytes(block.bytes, '\0');
  if (cache_.Read(block.key, block.bytes, 0, bytes.data(), bytes.size())) {
    ++hits_;
    return bytes;
  }
  MUSTER_RETURN_IF_ERROR(ReadRemote(block, 0, bytes.data(), bytes.size()));
  ++fetches_;
  fetched_bytes_ += bytes.size();
  cache_.Store(block.key, bytes);
  return bytes;
}

absl::Status CachedFileSystem::ReadRemote(const Block& block, uint64_t from, char* buffer,
                                          uint64_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(
      const uint64_t got,
      versions_.ReadVersion(block.path, block.version, block.number * options_.block_bytes + from,
                            buffer, bytes));
  if (got == bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(block.path.substr(0, block.path.find('?')),
                                          " ends before its ", block.version.size_bytes,
                                          " bytes: was it replaced?"));
}

void CachedFileSystem::WillRead(const std::string& path, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t most = std::numeric_limits<uint64_t>::max() - offset;
  const uint64_t last = offset + std::min(bytes - 1, most);
  prefetch_.Add(path, offset / options_.block_bytes, last / options_.block_bytes);
}

bool CachedFileSystem::PrefetchBlock(const std::string& path, uint64_t number) {
  const absl::StatusOr<FileVersion> version = versions_.Version(path);
  if (!version.ok() || version->tag.empty()) return false;
  if (version->size_bytes == 0 || number > (version->size_bytes - 1) / options_.block_bytes) {
    return false;
  }
  const Block block = BlockOf(path, *version, number);
  return cache_.Has(block.key) || (cache_.MayStore() && GetBlock(block)->status.ok());
}

absl::StatusOr<uint64_t> CachedFileSystem::FileSize(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const FileVersion version, versions_.Version(path));
  return version.size_bytes;
}

absl::StatusOr<std::string> CachedFileSystem::ReadFile(const std::string& path,
                                                       uint64_t max_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const FileVersion version, versions_.Version(path));
  // Small ones mostly, read once: and the remote knows what to say of one that is too large.
  if (version.tag.empty() || version.size_bytes > max_bytes) {
    return remote_.ReadFile(path, max_bytes);
  }
  std::string bytes;
  while (bytes.size() < version.size_bytes) {
    const uint64_t at = bytes.size();
    bytes.resize(at + std::min(options_.block_bytes, version.size_bytes - at));
    MUSTER_RETURN_IF_ERROR(ReadAt(path, at, bytes.data() + at, bytes.size() - at).status());
  }
  return bytes;
}

absl::StatusOr<FileSystem*> CachedFileSystem::Of(const std::string& /*path*/) { return &remote_; }

void CachedFileSystem::Cancel() {
  is_cancelled_ = true;
  remote_.Cancel();
}

CacheCounts CachedFileSystem::counts() const {
  return {hits_.load(), fetches_.load(), fetched_bytes_.load()};
}

}  // namespace muster
