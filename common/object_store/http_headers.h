// Values of HTTP headers that decide what bytes mean. They come from servers, so anything may stand
// in them. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// "bytes 0-9/100": positions of the first and the last byte, both included. Without a total for
// "bytes 0-9/*"; without a range, first > last, for "bytes */100" of an answer 416.
struct ContentRange {
  uint64_t first = 1;
  uint64_t last = 0;
  std::optional<uint64_t> total;
};

// Nothing for what is no Content-Range (RFC 9110, 14.4) or lies behind its total.
std::optional<ContentRange> ParseContentRange(absl::string_view value);

// Digits only; nothing for more than 19 of them.
std::optional<uint64_t> ParseLength(absl::string_view value);

// Seconds of a Retry-After; nothing for a date, which few servers send.
std::optional<absl::Duration> ParseRetryAfter(absl::string_view value);

// An ETag in quotes, without "W/", that If-Match can name.
bool IsStrongEtag(absl::string_view etag);

// Whether the value can be sent back in a header and written to a log: at most 1 KiB of printable
// ASCII.
bool IsPlainHeaderValue(absl::string_view value);

}  // namespace muster
