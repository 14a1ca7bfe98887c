// Quantities as people write and read them. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// "90s", "5m", "1h30m", "250ms", "2d". INVALID_ARGUMENT for anything else, a bare number included.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// "64MiB", "1GB", "512" (bytes). INVALID_ARGUMENT for anything else.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// At most two units: "2h47m", "12s", "3d4h", "450ms"; "0s" for zero and below.
std::string HumanDuration(absl::Duration duration);

// "2026-11-22T10:00:00Z": RFC 3339 in UTC, without parts of a second.
std::string Rfc3339Text(absl::Time time);

// "1.5 GiB", "312 MiB", "17 B".
std::string HumanBytes(double bytes);

}  // namespace muster
