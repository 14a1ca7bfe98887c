// The text by which a machine joins a cluster: muster-join.ID.SECRET.FINGERPRINT. The id names the
// token, the secret proves that it was given to this machine, and the fingerprint is that of the
// cluster's CA, by which the machine knows the controller before it tells the secret. Never log
// one. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct JoinTokenText {
  std::string id;           // 12 lower-case hex digits
  std::string secret;       // 64, of 32 random bytes
  std::string fingerprint;  // 64, SHA-256 of the CA's certificate
};

inline constexpr size_t kJoinTokenIdDigits = 12;
inline constexpr size_t kJoinTokenSecretDigits = 64;

std::string FormatJoinToken(const JoinTokenText& token);

// INVALID_ARGUMENT: it is none; the message does not repeat it.
absl::StatusOr<JoinTokenText> ParseJoinToken(absl::string_view text);

}  // namespace muster
