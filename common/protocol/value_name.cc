#include "common/protocol/value_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "common/base/utf8.h"

namespace muster {

bool IsValueName(absl::string_view name) {
  const auto is_control = [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); };
  return !name.empty() && name.size() <= kMaxValueNameBytes && IsUtf8(name) &&
         std::none_of(name.begin(), name.end(), is_control);
}

}  // namespace muster
