// A file's bytes in the address space, read-only: the kernel reads what is touched, and forgets it
// again when memory is short. For files that are only ever replaced whole: one that shrinks while
// it is mapped ends the process that reads there (SIGBUS).
//
// On a disk that machines share (NFS, Lustre, ...) another machine may take the file away though it
// is mapped here, and that ends the process, too: there a copy on this machine is mapped, one for
// all of its processes (machine_copy.h). The file is held by a shared flock as long as it is
// mapped, so that who removes unused ones can tell. Any thread may read.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"
#include "worker/data/index/machine_copy.h"

namespace muster::worker {

class MappedFile {
 public:
  // Called now and then while a file is copied; its error ends that.
  using Progress = std::function<absl::Status()>;

  // NOT_FOUND when it is not there, PERMISSION_DENIED, else UNAVAILABLE; the path is named. Where
  // no copy can be made the file itself is mapped, with a warning.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path,
                                                          const Progress& progress);
  // A copy in any case.
  static absl::StatusOr<std::unique_ptr<MappedFile>> OpenCopy(const std::string& path,
                                                              const Progress& progress);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return bytes_; }

 private:
  MappedFile(UniqueFd file, std::optional<MachineCopy> copy, absl::string_view bytes)
      : file_(std::move(file)), copy_(std::move(copy)), bytes_(bytes) {}
  static absl::StatusOr<std::unique_ptr<MappedFile>> Map(const std::string& path, UniqueFd file,
                                                         std::optional<MachineCopy> copy);

  const UniqueFd file_;  // holds the lock
  const std::optional<MachineCopy> copy_;
  const absl::string_view bytes_;
};

}  // namespace muster::worker
