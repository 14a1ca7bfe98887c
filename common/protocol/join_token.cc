#include "common/protocol/join_token.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

constexpr char kJoinTokenMark[] = "muster-join";
constexpr size_t kFingerprintDigits = 64;

bool IsHexOf(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string FormatJoinToken(const JoinTokenText& token) {
  return absl::StrCat(kJoinTokenMark, ".", token.id, ".", token.secret, ".", token.fingerprint);
}

absl::StatusOr<JoinTokenText> ParseJoinToken(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(text), absl::MaxSplits('.', 4));
  if (parts.size() != 4 || parts[0] != kJoinTokenMark || !IsHexOf(parts[1], kJoinTokenIdDigits) ||
      !IsHexOf(parts[2], kJoinTokenSecretDigits) || !IsHexOf(parts[3], kFingerprintDigits)) {
    return absl::InvalidArgumentError(
        "this is no join token, or a part of one; it begins with `muster-join.`, and `muster "
        "join-token create` prints it");
  }
  return JoinTokenText{std::string(parts[1]), std::string(parts[2]), std::string(parts[3])};
}

}  // namespace muster
