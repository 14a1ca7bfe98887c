// Hints of what will be read soon, and the threads that fetch it. Used by CachedFileSystem.
//
// Bounded: so many threads, each with one block in hand, and so many hints that wait; one too many
// is dropped. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace muster {

class PrefetchQueue {
 public:
  // Sees to it that the block is there; false: the hint's later blocks are not worth trying (the
  // file has ended, or an error).
  using FetchBlock = std::function<bool(const std::string& path, uint64_t block)>;

  PrefetchQueue(int threads, size_t max_hints, FetchBlock fetch);
  // Drops what waits, and waits for what is being fetched.
  ~PrefetchQueue();
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;

  // Blocks first to last, both included. False: dropped.
  bool Add(const std::string& path, uint64_t first, uint64_t last) MUSTER_EXCLUDES(mutex_);

 private:
  struct Hint {
    uint64_t id;
    std::string path;
    uint64_t next;
    uint64_t last;
  };
  void Run() MUSTER_EXCLUDES(mutex_);
  void Drop(uint64_t id) MUSTER_EXCLUDES(mutex_);

  const size_t max_hints_;
  const FetchBlock fetch_;
  Mutex mutex_;
  CondVar changed_;
  bool is_stopped_ MUSTER_GUARDED_BY(mutex_) = false;
  uint64_t hints_ MUSTER_GUARDED_BY(mutex_) = 0;  // so far, for their ids
  std::deque<Hint> waiting_ MUSTER_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace muster
