#include "common/call/grpc_wire.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int64_t kMostDigits = 99'999'999;

absl::StatusCode CodeOfHttp(int http_status) {
  switch (http_status) {
    case 400:
      return absl::StatusCode::kInternal;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::StatusCode CodeOfReset(uint32_t code) {
  constexpr uint32_t kRefusedStream = 7;
  constexpr uint32_t kCancel = 8;
  constexpr uint32_t kEnhanceYourCalm = 11;
  constexpr uint32_t kInadequateSecurity = 12;
  switch (code) {
    case kRefusedStream:
      return absl::StatusCode::kUnavailable;
    case kCancel:
      return absl::StatusCode::kCancelled;
    case kEnhanceYourCalm:
      return absl::StatusCode::kResourceExhausted;
    case kInadequateSecurity:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

void PutPrefix(uint32_t bytes, char* at) {
  at[0] = 0;
  for (int i = 0; i < 4; ++i) at[1 + i] = static_cast<char>(bytes >> (24 - 8 * i));
}

MessagePrefix ReadPrefix(absl::string_view bytes) {
  MessagePrefix prefix{.compressed = bytes[0] != 0};
  for (int i = 1; i < 5; ++i) prefix.bytes = prefix.bytes << 8 | static_cast<uint8_t>(bytes[i]);
  return prefix;
}

std::string TimeoutText(absl::Duration timeout) {
  const int64_t milliseconds =
      absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1)));
  if (milliseconds <= kMostDigits) return absl::StrCat(std::max<int64_t>(1, milliseconds), "m");
  return absl::StrCat(std::min(kMostDigits, milliseconds / 1000 + 1), "S");
}

std::string PercentDecode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const absl::string_view digits = text.substr(i + 1, 2);
    if (text[i] == '%' && digits.size() == 2 && absl::ascii_isxdigit(digits[0]) &&
        absl::ascii_isxdigit(digits[1])) {
      decoded += absl::HexStringToBytes(digits);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

absl::Status StatusOfTrailers(absl::string_view code, absl::string_view message) {
  int number = 0;
  const bool known = absl::SimpleAtoi(code, &number) && number >= 0 &&
                     number <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown,
                      PercentDecode(message));
}

absl::Status StatusOfHttp(int http_status) {
  return absl::Status(CodeOfHttp(http_status),
                      absl::StrCat("answered with HTTP status ", http_status, ", not by gRPC"));
}

absl::Status StatusOfReset(uint32_t code) {
  return absl::Status(CodeOfReset(code), absl::StrCat("the call was reset with code ", code));
}

}  // namespace muster
