// The disk of a machine as its agent's spool sees it: files in memory. An agent that is killed
// leaves them as they are. A machine that loses its power leaves of what was not synced (the spool
// syncs nothing) any part, and what was removed may be back. It can be full.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fs/file_system.h"
#include "tests/sim/dice.h"

namespace muster::sim {

class AgentDisk final : public FileSystem {
 public:
  explicit AgentDisk(Dice dice) : dice_(dice) {}

  bool full = false;  // files can be made, but nothing be written

  void LosePower();
  void CopyFrom(const AgentDisk& other);

  using FileSystem::CreateExclusive;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t mode) override;
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override;
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override;
  absl::Status MakeDirectories(const std::string&) override { return absl::OkStatus(); }
  absl::Status RemoveFile(const std::string& path) override;

  // A spool calls none of these.
  absl::StatusOr<std::string> ReadFile(const std::string&, uint64_t) override { return Unused(); }
  absl::StatusOr<uint64_t> FileSize(const std::string&) override { return Unused(); }
  absl::StatusOr<bool> Exists(const std::string&) override { return Unused(); }
  absl::Status Rename(const std::string&, const std::string&) override { return Unused(); }
  absl::Status SyncDirectory(const std::string&) override { return Unused(); }
  absl::Status RemoveTree(const std::string&) override { return Unused(); }

 private:
  struct File {
    std::string bytes;
    size_t synced = 0;  // of them, from the start
  };
  class Writer;
  static absl::Status Unused() { return absl::UnimplementedError("not on this disk"); }
  void LoseUnsynced(File& file);

  Dice dice_;
  std::map<std::string, std::shared_ptr<File>> files_;
  std::map<std::string, std::shared_ptr<File>> removed_;  // not durably
};

}  // namespace muster::sim
