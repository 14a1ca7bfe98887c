// Files wherever they are: of this machine, or on HTTP and S3 through the block cache of this
// machine.
//
// What reads data uses it: a path tells where it is. The remote side, with its cache's folder and
// its threads, comes to be with the first remote path. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "common/fs/prefetch.h"
#include "common/fs/versioned_files.h"
#include "common/object_store/cache/forwarding_file_system.h"
#include "common/object_store/retry_rules.h"

namespace muster {

struct AnyFileSystemOptions {
  // Of the block cache. Empty: MUSTER_DATA_CACHE, else muster/blocks in the user's cache folder
  // (XDG_CACHE_HOME, else .cache in HOME), or one of the user's in /var/tmp.
  std::string cache_folder;
  // 0: MUSTER_DATA_CACHE_BYTES, else 100 GiB. A tenth of the disk stays free in any case.
  uint64_t cache_bytes = 0;
  // How long a read from far away is tried before it fails.
  absl::Duration remote_deadline = RetryPolicy().operation_deadline;
  // The same as long as nothing has answered yet.
  absl::Duration remote_unanswered_deadline = RetryPolicy().unanswered_deadline;
  // Called before each call for a path, by whoever makes it; an error is that of the call.
  std::function<absl::Status()> before_call = [] { return absl::OkStatus(); };
};

// Memory that reading takes beside the reader's own: for blocks fetched ahead, and for the block of
// each reader.
struct ReadingBytes {
  uint64_t ahead = 0;
  uint64_t of_reader = 0;
};

class AnyFileSystem final : public ForwardingFileSystem, public Prefetch, public VersionedFiles {
 public:
  // `local` must outlive it.
  explicit AnyFileSystem(FileSystem& local, AnyFileSystemOptions options = {});
  // Cancels what is fetched ahead.
  ~AnyFileSystem() override;

  static ReadingBytes ReadingBytesOf(const std::string& path);

  // Takes the query off a URL that is signed in it, for reading, so that the path is the same
  // whenever it was signed, and no secret (RemoteFileSystem::KeepQuery). Other paths as they are.
  absl::StatusOr<std::string> KeepQuery(const std::string& path);

  // Of this machine's files and folders by their time of change; of others as their store has it.
  absl::StatusOr<FileVersion> Version(const std::string& path) override;
  // FAILED_PRECONDITION when the path has another version by now.
  absl::StatusOr<uint64_t> ReadVersion(const std::string& path, const FileVersion& version,
                                       uint64_t offset, char* buffer,
                                       uint64_t buffer_bytes) override;

  void Cancel() override MUSTER_EXCLUDES(mutex_);
  std::string Trouble() override MUSTER_EXCLUDES(mutex_);

  // Nothing for a file of this machine: the kernel reads ahead by itself.
  void WillRead(const std::string& path, uint64_t offset, uint64_t bytes) override;

 private:
  struct Remote;

  // That of the path. INVALID_ARGUMENT when it is remote and the settings for S3 are wrong. Where
  // the cache cannot be opened remote files are read without it.
  absl::StatusOr<FileSystem*> Of(const std::string& path) override;
  absl::StatusOr<Remote*> TheRemote() MUSTER_EXCLUDES(mutex_);

  FileSystem& local_;
  const AnyFileSystemOptions options_;
  Mutex mutex_;
  bool is_cancelled_ MUSTER_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Remote> remote_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster
