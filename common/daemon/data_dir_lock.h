// Holds a data folder for one daemon: an flock on <data-dir>/lock, which goes with the object or
// the process, however that ends. Children do not inherit it.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace muster {

class DataDirLock {
 public:
  // FAILED_PRECONDITION: another process holds the folder; the message names it and that process.
  // PERMISSION_DENIED, UNAVAILABLE: the file cannot be made or written. `program` is who asks, for
  // the message.
  static absl::StatusOr<DataDirLock> Take(const std::string& data_dir, absl::string_view program);

 private:
  explicit DataDirLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace muster
