// Holds a data folder for one agent at a time: two on the same folder would kill one another's
// ranks.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

class DataDirLock {
 public:
  // FAILED_PRECONDITION: another process holds `directory`; the message names both. The lock goes
  // with the object or the process; ranks do not inherit it. UNAVAILABLE, PERMISSION_DENIED: the
  // lock file cannot be made.
  static absl::StatusOr<DataDirLock> Take(const std::string& directory);

 private:
  explicit DataDirLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace muster::worker
