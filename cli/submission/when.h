// Times as people write them, for --begin and --deadline: RFC 3339 (`2026-11-22T10:00:00Z`), or
// from now on (`now+2h30m`, `+90s`, `now`). Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::cli {

// The time in RFC 3339. INVALID_ARGUMENT says what is allowed.
absl::StatusOr<std::string> ParseWhen(absl::string_view text, absl::Time now);

}  // namespace muster::cli
