// --since and --until: a time, or how long ago. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::cli {

// Unix milliseconds of `2026-11-22T10:00:00Z`, or of so long before `now` as `2h30m`; 0 of nothing.
// INVALID_ARGUMENT names the flag.
absl::StatusOr<int64_t> PastMillis(const char* flag, const std::optional<std::string>& text,
                                   absl::Time now);

}  // namespace muster::cli
