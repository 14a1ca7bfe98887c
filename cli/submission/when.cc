#include "cli/submission/when.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/spec/tree/scheduling_text.h"

namespace muster::cli {

absl::StatusOr<std::string> ParseWhen(absl::string_view text, absl::Time now) {
  const absl::string_view given = text;
  const bool from_now = absl::ConsumePrefix(&text, "now");
  if (from_now && text.empty()) return Rfc3339Text(now);
  if (absl::ConsumePrefix(&text, "+")) {
    MUSTER_ASSIGN_OR_RETURN(const absl::Duration later, ParseDuration(text));
    return Rfc3339Text(now + later);
  }
  if (from_now || !ParseWallTime(given).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", given, "' is no time: give one such as 2026-11-22T10:00:00Z, now+2h30m or now"));
  }
  return std::string(given);
}

}  // namespace muster::cli
