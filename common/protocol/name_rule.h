// The rule that every name in Muster follows: of jobs, projects, pools, workers.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kMostNameBytes = 63;

// [a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?: a DNS label (RFC 1123) in lower case.
bool IsName(absl::string_view text);

}  // namespace muster
