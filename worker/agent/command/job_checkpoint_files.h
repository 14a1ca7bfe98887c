// The file system as an agent's side thread sees it when it writes a job's checkpoint: each call
// says beforehand which path it waits for, what is written reaches the disk bit by bit, and what is
// made is open to others as the job's own files would be.
//
// Without the second, a copy of many gigabytes would end in one fsync of minutes, which looks like
// a mount whose server is gone. Without the third, the agent's umask would keep the job's user, and
// the containers of later jobs, from reading it. Used by command_checkpoints.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fs/file_system.h"
#include "worker/agent/base/path_watch.h"

namespace muster::worker {

class JobCheckpointFiles final : public FileSystem {
 public:
  // Written between two fsyncs of a file: an fsync may take the whole patience with a path, 30 s,
  // on a disk that writes two megabytes a second.
  static constexpr uint64_t kSyncBytes = 64u << 20;

  using FileSystem::CreateExclusive;

  // `mask`: the umask of what is made; nothing: the process's. `fs` outlives it.
  JobCheckpointFiles(FileSystem& fs, std::shared_ptr<PathWatch> watch, std::optional<mode_t> mask)
      : fs_(fs), watch_(std::move(watch)), mask_(mask) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override;
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  absl::StatusOr<bool> Exists(const std::string& path) override;
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;

 private:
  void OpenToOthers(const std::string& path, mode_t mode);

  FileSystem& fs_;
  const std::shared_ptr<PathWatch> watch_;
  const std::optional<mode_t> mask_;
};

}  // namespace muster::worker
