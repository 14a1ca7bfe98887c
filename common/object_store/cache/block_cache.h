// Blocks of remote files in a folder of this machine, shared by all processes that open it.
//
// CachedFileSystem fills and reads it. A block is written under a temporary name and renamed, so it
// is whole or not there, whenever somebody is killed; every read checks what it reads
// (block_file.h) and removes what is damaged. Nothing is synced: what a power cut takes is fetched
// again.
//
//   blocks/ab/<key>   a block; its modification time is that of its last use, to the minute
//   new/              being written, each held by flock; who opens the cache removes what no
//                     process of this machine holds, or was begun a day ago
//   size              the bytes of blocks, held by flock while blocks are added or evicted
//   locks             a byte for each key that is being fetched (file_locks.h)
//
// The folder should be on a disk of this machine. On one that machines share it holds as well, also
// where that has no locks: then two processes may fetch one block twice, and `size` may be off
// until the cache is opened again. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/unique_fd.h"

namespace muster {

struct BlockCacheOptions {
  std::string folder;
  // Of all blocks together, as long as a tenth of the disk stays free; the least recently used go
  // first. Each process that is just writing a
  // block may add one to it for a moment.
  uint64_t max_bytes = uint64_t{100} << 30;
  // How long to wait for another process that fetches the same block, before fetching it as well.
  absl::Duration fetch_lock_wait = absl::Minutes(6);
};

class BlockCache {
 public:
  // Makes the folder and removes leftovers of processes that died. INVALID_ARGUMENT for no folder
  // or no bytes; else the errors of file_system.h. The clock outlives the cache.
  static absl::StatusOr<std::unique_ptr<BlockCache>> Open(BlockCacheOptions options, Clock& clock);

  // Fills `buffer` with [offset, offset + bytes) of the block; false when it is not there, or was
  // damaged (it is gone then). `block_bytes` is the size of this block.
  bool Read(absl::string_view key, uint64_t block_bytes, uint64_t offset, char* buffer,
            uint64_t bytes);
  bool Has(absl::string_view key) const;

  // Keeps the block if it can. A disk that is full or broken is warned of once; the caller has the
  // bytes anyway.
  void Store(absl::string_view key, absl::string_view block);
  // Whether a block that is fetched now would be kept, as far as is known. After one that was not,
  // only one caller a minute is told so: to try again.
  bool MayStore();

  // Held by one process at a time, and by one thread of it, until it is destroyed. Nothing when
  // another has held it for the whole wait, or until `given_up` said so: then fetch without.
  UniqueFd LockForFetch(absl::string_view key, const std::function<bool()>& given_up = nullptr);

  // The bytes of the blocks, as the folder says now. For tests and metrics.
  uint64_t bytes_on_disk() const;

 private:
  BlockCache(BlockCacheOptions options, Clock& clock);

  std::string PathOf(absl::string_view key) const;
  void RemoveLeftovers();
  absl::Status Write(absl::string_view key, absl::string_view block);
  // Adds so many bytes to the sum, after evicting what stands in their way.
  absl::Status Reserve(uint64_t bytes);
  void Release(uint64_t bytes);
  uint64_t Room(uint64_t sum) const;
  // Removes blocks until the others and `bytes` more fit into `most`; returns the bytes of the
  // others.
  uint64_t Evict(uint64_t bytes, uint64_t most);
  void WarnOnce(const absl::Status& status);

  const BlockCacheOptions options_;
  Clock& clock_;
  std::atomic<bool> has_warned_ = false;
  // Seconds since boot; 0: the last block was kept.
  std::atomic<int64_t> try_again_at_ = 0;
};

}  // namespace muster
