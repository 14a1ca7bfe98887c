// Cuts a byte stream into lines, with a bound on how long one may be. Used by both ends of the
// link. Pure, one thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class LineBuffer {
 public:
  explicit LineBuffer(size_t max_line_bytes = kMaxLineBytes) : max_line_bytes_(max_line_bytes) {}

  // Takes bytes as they came. RESOURCE_EXHAUSTED when a line is longer than the bound: the stream
  // is beyond repair and the caller closes it. Call Next until it is empty before the next Append.
  absl::Status Append(absl::string_view bytes);

  // The next whole line, without its newline.
  std::optional<std::string> Next();

 private:
  const size_t max_line_bytes_;
  std::string bytes_;
  size_t begin_ = 0;    // first byte that was not handed out
  size_t scanned_ = 0;  // no newline in [begin_, scanned_)
};

}  // namespace muster::worker
