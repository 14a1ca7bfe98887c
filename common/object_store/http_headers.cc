#include "common/object_store/http_headers.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace muster {
namespace {

constexpr size_t kMaxDigits = 19;
constexpr size_t kMaxHeaderValueBytes = 1024;
constexpr absl::string_view kUnit = "bytes";

}  // namespace

std::optional<uint64_t> ParseLength(absl::string_view value) {
  const bool is_number = !value.empty() && value.size() <= kMaxDigits &&
                         std::all_of(value.begin(), value.end(), [](char c) {
                           return absl::ascii_isdigit(static_cast<unsigned char>(c));
                         });
  uint64_t number = 0;
  if (!is_number || !absl::SimpleAtoi(value, &number)) return std::nullopt;
  return number;
}

std::optional<ContentRange> ParseContentRange(absl::string_view value) {
  value = absl::StripAsciiWhitespace(value);
  if (!absl::StartsWithIgnoreCase(value, kUnit)) return std::nullopt;
  value.remove_prefix(kUnit.size());
  if (value.empty() || value[0] != ' ') return std::nullopt;
  value = absl::StripLeadingAsciiWhitespace(value);
  const size_t slash = value.find('/');
  if (slash == absl::string_view::npos) return std::nullopt;
  const absl::string_view range = value.substr(0, slash);
  const absl::string_view total = value.substr(slash + 1);
  ContentRange parsed;
  if (total != "*") {
    parsed.total = ParseLength(total);
    if (!parsed.total.has_value()) return std::nullopt;
  }
  if (range == "*") return parsed.total.has_value() ? std::optional(parsed) : std::nullopt;
  const size_t dash = range.find('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  const std::optional<uint64_t> first = ParseLength(range.substr(0, dash));
  const std::optional<uint64_t> last = ParseLength(range.substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *first > *last) return std::nullopt;
  if (parsed.total.has_value() && *last >= *parsed.total) return std::nullopt;
  parsed.first = *first;
  parsed.last = *last;
  return parsed;
}

std::optional<absl::Duration> ParseRetryAfter(absl::string_view value) {
  const std::optional<uint64_t> seconds = ParseLength(absl::StripAsciiWhitespace(value));
  if (!seconds.has_value()) return std::nullopt;
  return absl::Seconds(static_cast<int64_t>(*seconds));
}

bool IsStrongEtag(absl::string_view etag) {
  return etag.size() >= 2 && etag.front() == '"' && etag.back() == '"' && IsPlainHeaderValue(etag);
}

bool IsPlainHeaderValue(absl::string_view value) {
  return value.size() <= kMaxHeaderValueBytes &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); });
}

}  // namespace muster
