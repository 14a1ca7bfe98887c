#include "common/spec/validate/image_reference.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

constexpr absl::string_view kDigest = "@sha256:";
constexpr size_t kDigestHex = 64;
constexpr size_t kMostTagBytes = 128;

// Letters, digits and ". _ -", beginning with one of the first two.
bool IsWord(absl::string_view text) {
  return !text.empty() && absl::ascii_isalnum(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

bool IsPort(absl::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == absl::string_view::npos;
}

}  // namespace

bool IsImageReference(absl::string_view text) {
  if (text.size() > kMostImageBytes) return false;
  if (const size_t at = text.find('@'); at != absl::string_view::npos) {
    const absl::string_view digest = text.substr(at);
    if (digest.size() != kDigest.size() + kDigestHex ||
        digest.substr(0, kDigest.size()) != kDigest ||
        digest.find_first_not_of("0123456789abcdef", kDigest.size()) != absl::string_view::npos) {
      return false;
    }
    text = text.substr(0, at);
  }
  std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  absl::string_view& last = parts.back();
  if (const size_t colon = last.find(':'); colon != absl::string_view::npos) {
    const absl::string_view tag = last.substr(colon + 1);
    if (!IsWord(tag) || tag.size() > kMostTagBytes) return false;
    last = last.substr(0, colon);
  }
  absl::string_view& first = parts.front();
  if (const size_t colon = first.find(':'); parts.size() > 1 && colon != absl::string_view::npos) {
    if (!IsPort(first.substr(colon + 1))) return false;
    first = first.substr(0, colon);
  }
  return std::all_of(parts.begin(), parts.end(), IsWord);
}

}  // namespace muster
