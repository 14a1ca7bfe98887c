#include "worker/data/parquet/file_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace muster::worker {

absl::StatusOr<absl::string_view> FileWindow::Fetch(uint64_t offset, uint64_t size) {
  MUSTER_CHECK(offset >= at_ && offset <= end_ && size <= end_ - offset, "bytes lie in the window");
  const uint64_t before = offset - at_;
  if (before + size <= held_.size()) return absl::string_view(held_).substr(before, size);

  held_.erase(0, before);
  at_ = offset;
  size_t filled = held_.size();
  held_.resize(std::min(std::max(size, kAheadBytes), end_ - offset));
  while (filled < held_.size()) {
    const auto got = fs_.ReadAt(path_, at_ + filled, held_.data() + filled, held_.size() - filled);
    if (!got.ok() || *got == 0) {
      held_.resize(filled);
      if (!got.ok()) return got.status();
      return absl::DataLossError(absl::StrCat(path_, " ended while it was read"));
    }
    filled += *got;
  }
  return absl::string_view(held_).substr(0, size);
}

}  // namespace muster::worker
