#include "common/protocol/name_rule.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace muster {

bool IsName(absl::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes || text.front() == '-' || text.back() == '-') {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

}  // namespace muster
