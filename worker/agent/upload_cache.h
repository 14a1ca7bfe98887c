// Uploaded folders on this worker: archives fetched once, checked by their hash at each use, and
// unpacked for whoever runs in one. Blocking; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class UploadCache {
 public:
  static constexpr uint64_t kMaxBytes = 1ull << 30;  // of archives that are kept

  // Brings a whole archive, at most kMaxUploadBytes; what it brings need not be right.
  using Fetch = std::function<absl::StatusOr<std::string>(const std::string& sha256)>;

  UploadCache(FileSystem& fs, std::string folder, Fetch fetch, uint64_t max_bytes = kMaxBytes)
      : fs_(fs), folder_(std::move(folder)), fetch_(std::move(fetch)), max_bytes_(max_bytes) {}

  // Makes the folder `into` of the archive. INVALID_ARGUMENT, DATA_LOSS: the archive is no good;
  // otherwise the errors of the fetch and of the disk. After an error nothing is left at `into`.
  absl::Status Unpack(const std::string& sha256, const std::string& into);

 private:
  absl::StatusOr<std::string> Get(const std::string& sha256);
  void Keep(const std::string& sha256, const std::string& archive);
  void Trim(const std::string& but);
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  FileSystem& fs_;
  const std::string folder_;
  const Fetch fetch_;
  const uint64_t max_bytes_;
  uint64_t uses_ = 0;
  std::map<std::string, uint64_t> last_use_;  // those of an earlier life are the oldest
};

}  // namespace muster::worker
