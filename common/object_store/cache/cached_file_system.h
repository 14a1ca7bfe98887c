// A remote file system whose bytes come from the block cache of this machine where it has them.
//
// What reads data from far away uses it in front of RemoteFileSystem. A block is fetched once, by
// however many threads and processes want it at the same time: the bytes that leave the server in
// an epoch stay those of the data, for one to eight processes, as long as the cache has room for
// them. Where it has none, what is asked for is fetched, and hints come to nothing. Files that the
// store names no version of are read without the cache. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "common/fs/prefetch.h"
#include "common/fs/versioned_files.h"
#include "common/object_store/cache/block_cache.h"
#include "common/object_store/cache/forwarding_file_system.h"
#include "common/object_store/cache/prefetch_queue.h"

namespace muster {

struct CachedFileSystemOptions {
  uint64_t block_bytes = 8 << 20;
  // Blocks fetched ahead at the same time; each takes its size in memory.
  int prefetch_threads = 8;
  size_t max_hints = 1024;
};

// Since it was made.
struct CacheCounts {
  uint64_t hits = 0;           // reads of (parts of) a block from the disk
  uint64_t fetches = 0;        // blocks that came from the remote
  uint64_t fetched_bytes = 0;  // of them
};

class CachedFileSystem final : public ForwardingFileSystem, public Prefetch {
 public:
  // All outlive it. `versions` is the remote's other side.
  CachedFileSystem(FileSystem& remote, VersionedFiles& versions, BlockCache& cache,
                   CachedFileSystemOptions options = {});
  // Waits for the blocks that are being fetched ahead, as long as the remote takes for them: cancel
  // it before.
  ~CachedFileSystem() override;

  // From the cache, or through it. Errors are the remote's.
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;

  void WillRead(const std::string& path, uint64_t offset, uint64_t bytes) override;

  // The remote, too.
  void Cancel() override;

  CacheCounts counts() const;

 private:
  // For the rest of the calls.
  absl::StatusOr<FileSystem*> Of(const std::string& path) override;
  // One block of one version of a file.
  struct Block {
    const std::string& path;
    const FileVersion& version;
    uint64_t number;
    uint64_t bytes;  // fewer in the last block
    std::string key;
  };
  // A block on its way here: who comes later waits for the first.
  struct Flight {
    bool is_done = false;
    absl::Status status;
    std::string bytes;
  };
  Block BlockOf(const std::string& path, const FileVersion& version, uint64_t number) const;
  // The whole block, from the disk or from the remote.
  std::shared_ptr<const Flight> GetBlock(const Block& block) MUSTER_EXCLUDES(mutex_);
  absl::StatusOr<std::string> Fetch(const Block& block);
  // [from, from + bytes) of the block, past the cache.
  absl::Status ReadRemote(const Block& block, uint64_t from, char* buffer, uint64_t bytes);
  bool PrefetchBlock(const std::string& path, uint64_t number);

  FileSystem& remote_;
  VersionedFiles& versions_;
  BlockCache& cache_;
  const CachedFileSystemOptions options_;
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<uint64_t> hits_ = 0;
  std::atomic<uint64_t> fetches_ = 0;
  std::atomic<uint64_t> fetched_bytes_ = 0;
  Mutex mutex_;
  CondVar landed_;
  std::map<std::string, std::shared_ptr<Flight>> flights_ MUSTER_GUARDED_BY(mutex_);
  PrefetchQueue prefetch_;  // the last: its threads use the rest
};

}  // namespace muster
