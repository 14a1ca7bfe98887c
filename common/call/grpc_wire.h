// gRPC's wire format, as far as it is text and numbers: what stands around messages and in headers.
// Pure; any thread. Source: PROTOCOL-HTTP2.md and http-grpc-status-mapping.md of gRPC's
// documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// In front of each message: a flag (1: compressed) and the length, big-endian.
inline constexpr size_t kPrefixBytes = 5;

struct MessagePrefix {
  bool compressed = false;
  size_t bytes = 0;
};

// Writes the prefix of a message of `bytes` into the first kPrefixBytes of `at`.
void PutPrefix(uint32_t bytes, char* at);
// Requires kPrefixBytes in `bytes`.
MessagePrefix ReadPrefix(absl::string_view bytes);

// The value of `grpc-timeout`: rounded up, at least 1 ms, at most 8 digits. Requires a finite one.
std::string TimeoutText(absl::Duration timeout);

// `grpc-message` as it was before it was percent-encoded; what is no such code stays as it is.
std::string PercentDecode(absl::string_view text);

// The status that `grpc-status` and `grpc-message` name. A number that no code has, or none at all,
// is UNKNOWN.
absl::Status StatusOfTrailers(absl::string_view code, absl::string_view message);

// The status of an answer without `grpc-status`, by its HTTP status (200: UNKNOWN).
absl::Status StatusOfHttp(int http_status);

// The status of a call whose stream the peer reset with this code of RFC 9113, section 7.
absl::Status StatusOfReset(uint32_t code);

}  // namespace muster
