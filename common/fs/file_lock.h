// Holds a file for one process at a time: an flock, which goes with the object or with the process,
// however that ends. The file stays; its holder may remove it. Any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster {

class FileLock {
 public:
  // Makes the file where it is not there. Nothing: another holds it. UNIMPLEMENTED: the
  // disk has no locks, as some network file systems; else FileSystem's errors.
  static absl::StatusOr<std::optional<FileLock>> Try(const std::string& path);

  // Sets the file's time to now: a sign of life for those who wait.
  void Touch() const;

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace muster
