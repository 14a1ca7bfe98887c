#include "worker/data_tool/pack/member_key.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {

absl::StatusOr<std::string> MemberKey(absl::string_view key) {
  std::string member(key);
  const size_t slash = member.rfind('/');
  std::replace(member.begin() + static_cast<int64_t>(slash == std::string::npos ? 0 : slash + 1),
               member.end(), '.', '-');
  const bool fits = member.find('\0') == std::string::npos && !member.empty() &&
                    NameOf(absl::StrCat(member, ".jpg")).key == member;
  if (fits) return member;
  return absl::InvalidArgumentError(
      absl::StrCat("the key '", key, "' cannot be the name of a file in a tar"));
}

}  // namespace muster::worker
