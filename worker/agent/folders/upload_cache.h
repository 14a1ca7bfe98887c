// Archives of uploaded folders that are kept on this worker, checked by their hash at each use.
// Blocking; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class UploadCache {
 public:
  static constexpr uint64_t kMaxBytes = 1ull << 30;  // of archives that are kept

  UploadCache(FileSystem& fs, std::string folder, uint64_t max_bytes = kMaxBytes)
      : fs_(fs), folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // The whole archive. NOT_FOUND: it is not here. INVALID_ARGUMENT: that is no SHA-256; otherwise
  // the errors of the disk.
  absl::StatusOr<std::string> Get(const std::string& sha256);
  // Takes in what was fetched, as far as the disk has room. DATA_LOSS: it is something else.
  absl::Status Put(const std::string& sha256, const std::string& archive);

 private:
  void Keep(const std::string& sha256, const std::string& archive);
  void Trim(const std::string& but);
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  FileSystem& fs_;
  const std::string folder_;
  const uint64_t max_bytes_;
  uint64_t uses_ = 0;
  std::map<std::string, uint64_t> last_use_;  // those of an earlier life are the oldest
};

}  // namespace muster::worker
