#include "worker/data/index/index_progress.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kSignOfLife = absl::Seconds(1);

}  // namespace

void IndexProgress::Hold(const FileLock* lock) {
  lock_ = lock;
  silence_ = Deadline(absl::ZeroDuration());
}

absl::Status IndexProgress::GoesOn() {
  is_stopped_ = is_stopped_ || !options_.goes_on();
  if (is_stopped_) return absl::CancelledError("stopped while the data were indexed");
  if (!silence_.over()) return absl::OkStatus();
  silence_ = Deadline(kSignOfLife);
  options_.progress(samples_);
  if (lock_ != nullptr) lock_->Touch();
  return absl::OkStatus();
}

absl::StatusOr<FileSystem*> WatchedFiles::Of(const std::string& /*path*/) {
  MUSTER_RETURN_IF_ERROR(progress_.GoesOn());
  return &files_;
}

}  // namespace muster::worker
