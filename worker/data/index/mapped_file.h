// A file's bytes in the address space, read-only: the kernel reads what is touched, and forgets it
// again when memory is short. For files that are only ever replaced whole: one that shrinks while
// it is mapped ends the process that reads there. Any thread may read.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

class MappedFile {
 public:
  // NOT_FOUND when it is not there, PERMISSION_DENIED, else UNAVAILABLE; the path is named.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::string_view bytes) : bytes_(bytes) {}
  const absl::string_view bytes_;
};

}  // namespace muster::worker
