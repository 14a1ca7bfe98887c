// Text from outside as it may stand in a proto string: valid UTF-8, and bounded. A message with
// anything else in one of its strings is refused whole by whoever receives it. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// The first `most` bytes or a few less, so that no character is cut; bytes that are no UTF-8 become
// '?'.
std::string CutUtf8(absl::string_view text, size_t most);

// All of it, with each byte that is no UTF-8 as '?'.
std::string RepairUtf8(absl::string_view text);

bool IsUtf8(absl::string_view text);

}  // namespace muster
