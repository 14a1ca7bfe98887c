#include "cli/grammar/past_time.h"

#include "absl/strings/str_cat.h"
#include "common/base/units.h"
#include "common/spec/tree/scheduling_text.h"

namespace muster::cli {

absl::StatusOr<int64_t> PastMillis(const char* flag, const std::optional<std::string>& text,
                                   absl::Time now) {
  if (!text.has_value()) return 0;
  if (const auto ago = ParseDuration(*text); ago.ok()) return absl::ToUnixMillis(now - *ago);
  const auto time = ParseWallTime(*text);
  if (time.ok()) return absl::ToUnixMillis(*time);
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": must be a time such as 2026-11-22T10:00:00Z, or how long ago, such as 24h; got '",
      *text, "'"));
}

}  // namespace muster::cli
