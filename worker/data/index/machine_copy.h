// A copy on this machine of a file on a disk that machines share: one for all processes of a user,
// and for as long as one of them has it.
//
// Used by MappedFile. Copies lie in muster-index-UID in TMPDIR, or in /var/tmp. Who has one holds
// it by a shared flock; the last one removes it, and what killed processes have left, the next who
// wants a copy. Any thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

class MachineCopy {
 public:
  // Of a regular file that is never written to, and whose last 4 KiB tell its content. Made where
  // it is not there; while another process makes it, this one waits. A tenth of the disk stays free
  // (RESOURCE_EXHAUSTED); UNAVAILABLE when the other process stands still. `progress` is called now
  // and then; its error ends it. Else FileSystem's errors.
  static absl::StatusOr<MachineCopy> Of(const std::string& path, const UniqueFd& file,
                                        const std::function<absl::Status()>& progress);

  ~MachineCopy();
  MachineCopy(MachineCopy&&) = default;

  int fd() const { return fd_.get(); }

 private:
  MachineCopy(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  UniqueFd fd_;
};

}  // namespace muster::worker
