#include "worker/data/formats/parse/file_cursor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {

absl::StatusOr<FileCursor> FileCursor::Open(FileSystem& fs, std::string path, ReadWindow window) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t size, fs.FileSize(path));
  window.least_bytes = std::max<uint64_t>(window.least_bytes, 1);
  window.most_bytes = std::max(window.most_bytes, window.least_bytes);
  return FileCursor(fs, std::move(path), size, window);
}

absl::StatusOr<absl::string_view> FileCursor::Read(uint64_t bytes) {
  if (bytes > remaining()) return CutOff(bytes);
  if (bytes > kMostReadBytes) {
    return Bad(position_, absl::StrCat("holds ", bytes, " bytes where at most ", kMostReadBytes,
                                       " are expected"));
  }
  const bool held = position_ >= buffer_at_ && position_ - buffer_at_ <= buffer_bytes_ &&
                    bytes <= buffer_bytes_ - (position_ - buffer_at_);
  if (!held) MUSTER_RETURN_IF_ERROR(Fill(bytes));
  const absl::string_view found(buffer_.data() + (position_ - buffer_at_), bytes);
  position_ += bytes;
  return found;
}

absl::Status FileCursor::Skip(uint64_t bytes) {
  if (bytes > remaining()) return CutOff(bytes);
  position_ += bytes;
  return absl::OkStatus();
}

// From the position on, so much that `bytes` are in it.
absl::Status FileCursor::Fill(uint64_t bytes) {
  const uint64_t end = buffer_at_ + buffer_bytes_;
  const bool near = position_ >= buffer_at_ && position_ < end + ask_bytes_;
  ask_bytes_ = ask_bytes_ == 0 ? window_.least_bytes
               : near          ? std::min(ask_bytes_ * 2, window_.most_bytes)
                               : std::max(ask_bytes_ / 2, window_.least_bytes);
  const uint64_t wanted = std::min(std::max(ask_bytes_, bytes), remaining());
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  buffer_bytes_ = 0;
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                          fs_->ReadAt(path_, position_, buffer_.data(), wanted));
  buffer_at_ = position_;
  buffer_bytes_ = std::min(got, wanted);
  if (buffer_bytes_ >= bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, " had ", size_, " bytes when it was opened, but ",
                                          "ends at byte ", position_ + buffer_bytes_,
                                          " now: something has written to it"));
}

absl::Status FileCursor::CutOff(uint64_t bytes) const {
  return Bad(position_, absl::StrCat("should have ", bytes, " bytes more, but has ", remaining(),
                                     ": it is cut off or broken"));
}

absl::Status FileCursor::Bad(uint64_t offset, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, " at byte ", offset, ": ", what));
}

}  // namespace muster::worker
