// Holds a data folder for one musterd: an flock on <data-dir>/lock, which ends with the process
// however it ends.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::controller {

class DataDirLock {
 public:
  // FAILED_PRECONDITION: another process holds the folder; the message names it and that process.
  // UNAVAILABLE: the file cannot be made or written.
  static absl::StatusOr<DataDirLock> Take(const std::string& data_dir);

 private:
  explicit DataDirLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace muster::controller
