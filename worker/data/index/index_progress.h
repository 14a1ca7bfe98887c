// What is told and asked while the indexes of a data set are made: signs of life, and whether to go
// on.
//
// Used by data_indexes.cc. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/deadline.h"
#include "common/fs/file_lock.h"
#include "common/object_store/cache/forwarding_file_system.h"
#include "worker/data/index/data_indexes.h"

namespace muster::worker {

class IndexProgress {
 public:
  // `options` must outlive it.
  explicit IndexProgress(const IndexOptions& options) : options_(options) {}

  // From now on other processes wait for this one: they see by the lock's time that it lives. Null:
  // no longer. `lock` must live until then.
  void Hold(const FileLock* lock);

  // CANCELLED once options.goes_on has said no. Calls options.progress and touches the lock once a
  // second, however often it is called.
  absl::Status GoesOn();
  absl::Status SampleFound() {
    ++samples_;
    return GoesOn();
  }
  uint64_t samples() const { return samples_; }

 private:
  const IndexOptions& options_;
  const FileLock* lock_ = nullptr;
  bool is_stopped_ = false;
  uint64_t samples_ = 0;
  Deadline silence_{absl::ZeroDuration()};
};

// The data that are indexed: each call to them is progress, whatever comes of it.
class WatchedFiles final : public ForwardingFileSystem {
 public:
  // Both must outlive it.
  WatchedFiles(FileSystem& files, IndexProgress& progress) : files_(files), progress_(progress) {}

 private:
  absl::StatusOr<FileSystem*> Of(const std::string& path) override;

  FileSystem& files_;
  IndexProgress& progress_;
};

}  // namespace muster::worker
