// Random bytes that nobody guesses, and the comparison of what only some may know. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// From the kernel; at most 256. UNAVAILABLE: it gives none.
absl::StatusOr<std::string> RandomBytes(size_t count);
// So many bytes as lower-case hex, two digits each.
absl::StatusOr<std::string> RandomHex(size_t bytes);

// Whether the two are equal, in a time that does not depend on where they differ.
bool IsSameSecret(absl::string_view a, absl::string_view b);

}  // namespace muster
