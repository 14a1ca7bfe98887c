// A file's bytes in the address space, read-only: the kernel reads what is touched, and forgets it
// again when memory is short. For files that are only ever replaced whole: one that shrinks while
// it is mapped ends the process that reads there (SIGBUS).
//
// On a disk that machines share (NFS, Lustre, ...) another machine may take the file away though it
// is mapped here, and that ends the process, too: there a copy is mapped, which lies without a name
// in TMPDIR or /var/tmp. The file is held by a shared flock as long as it is mapped, so that who
// removes unused ones can tell. Any thread may read.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

class MappedFile {
 public:
  // NOT_FOUND when it is not there, PERMISSION_DENIED, else UNAVAILABLE; the path is named. Where
  // no copy can be made the file itself is mapped, with a warning.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  // A copy in any case.
  static absl::StatusOr<std::unique_ptr<MappedFile>> OpenCopy(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return bytes_; }

 private:
  MappedFile(UniqueFd file, absl::string_view bytes) : file_(std::move(file)), bytes_(bytes) {}
  static absl::StatusOr<std::unique_ptr<MappedFile>> Map(const std::string& path, UniqueFd file,
                                                         int mapped_fd);

  const UniqueFd file_;  // holds the lock
  const absl::string_view bytes_;
};

}  // namespace muster::worker
