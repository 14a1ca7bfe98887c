// The name of a number that a program reports: `loss`, `train/loss`, `val acc`.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kMaxValueNameBytes = 128;

// 1 to kMaxValueNameBytes bytes of UTF-8 without control characters: it is shown on terminals and
// stands in labels and tables.
bool IsValueName(absl::string_view name);

}  // namespace muster
