#include "worker/link/line_buffer.h"

#include "absl/strings/str_cat.h"

namespace muster::worker {

absl::Status LineBuffer::Append(absl::string_view bytes) {
  bytes_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  bytes_.append(bytes.data(), bytes.size());
  const size_t newline = bytes_.find('\n', scanned_);
  const size_t line_bytes = newline == std::string::npos ? bytes_.size() : newline;
  if (line_bytes > max_line_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a line is longer than ", max_line_bytes_, " bytes"));
  }
  return absl::OkStatus();
}

std::optional<std::string> LineBuffer::Next() {
  const size_t newline = bytes_.find('\n', scanned_);
  if (newline == std::string::npos) {
    scanned_ = bytes_.size();
    return std::nullopt;
  }
  std::string line = bytes_.substr(begin_, newline - begin_);
  begin_ = scanned_ = newline + 1;
  return line;
}

}  // namespace muster::worker
