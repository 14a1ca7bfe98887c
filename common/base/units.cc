#include "common/base/units.h"

#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no duration: write it as 90s, 5m, 1h30m or 2d"));
  };
  absl::Duration total;
  absl::string_view rest = text;
  if (rest.empty()) return bad();
  while (!rest.empty()) {
    size_t digits = 0;
    while (digits < rest.size() &&
           (std::isdigit(static_cast<unsigned char>(rest[digits])) || rest[digits] == '.')) {
      ++digits;
    }
    size_t unit_end = digits;
    while (unit_end < rest.size() && std::isalpha(static_cast<unsigned char>(rest[unit_end])))
      ++unit_end;
    double count = 0;
    if (!absl::SimpleAtod(rest.substr(0, digits), &count)) return bad();
    const absl::string_view unit = rest.substr(digits, unit_end - digits);
    if (unit == "d") {
      total += absl::Hours(24 * count);
    } else if (unit == "h") {
      total += absl::Hours(count);
    } else if (unit == "m") {
      total += absl::Minutes(count);
    } else if (unit == "s") {
      total += absl::Seconds(count);
    } else if (unit == "ms") {
      total += absl::Milliseconds(count);
    } else {
      return bad();
    }
    rest.remove_prefix(unit_end);
  }
  if (total == absl::InfiniteDuration()) return bad();
  return total;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  static constexpr std::array<std::pair<absl::string_view, double>, 10> kUnits = {
      {{"", 1},
       {"B", 1},
       {"KiB", 1024.},
       {"MiB", 1048576.},
       {"GiB", 1073741824.},
       {"TiB", 1099511627776.},
       {"kB", 1e3},
       {"MB", 1e6},
       {"GB", 1e9},
       {"TB", 1e12}}};
  size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.')) {
    ++digits;
  }
  double count = 0;
  if (absl::SimpleAtod(text.substr(0, digits), &count)) {
    for (const auto& [unit, factor] : kUnits) {
      if (text.substr(digits) != unit) continue;
      const double bytes = count * factor;
      if (bytes >= 9.0e18) break;
      return static_cast<uint64_t>(bytes);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no size: write it as 512, 64MiB or 1.5GB"));
}

std::string HumanDuration(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return "0s";
  if (duration < absl::Seconds(1)) {
    return absl::StrCat(absl::ToInt64Milliseconds(duration), "ms");
  }
  const int64_t s = absl::ToInt64Seconds(duration);
  const auto two = [](int64_t a, const char* ua, int64_t b, const char* ub) {
    return b == 0 ? absl::StrCat(a, ua) : absl::StrCat(a, ua, b, ub);
  };
  if (s < 60) return absl::StrCat(s, "s");
  if (s < 3600) return two(s / 60, "m", s % 60, "s");
  if (s < 86400) return two(s / 3600, "h", s % 3600 / 60, "m");
  return two(s / 86400, "d", s % 86400 / 3600, "h");
}

std::string Rfc3339Text(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string HumanBytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 || bytes >= 100 ? absl::StrFormat("%.0f %s", bytes, kUnits[unit])
                                   : absl::StrFormat("%.1f %s", bytes, kUnits[unit]);
}

}  // namespace muster
