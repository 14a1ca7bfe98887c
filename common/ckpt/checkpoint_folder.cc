#include "common/ckpt/checkpoint_folder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr size_t kMaxNonce = 32;

// Takes `prefix` and the decimal number after it off the front of `text`.
template <typename T>
bool ConsumeNumber(absl::string_view& text, absl::string_view prefix, T* value) {
  if (!absl::ConsumePrefix(&text, prefix)) return false;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (!absl::SimpleAtoi(text.substr(0, digits), value)) return false;
  text.remove_prefix(digits);
  return true;
}

bool IsNonce(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxNonce &&
         text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == absl::string_view::npos;
}

}  // namespace

std::string FolderName(const CheckpointFolder& folder) {
  std::string name =
      absl::StrCat("step-", folder.step, ".a", folder.attempt, ".g", folder.generation);
  if (folder.temporary()) absl::StrAppend(&name, ".", folder.nonce, ".tmp");
  return name;
}

std::optional<CheckpointFolder> ParseFolderName(absl::string_view name) {
  CheckpointFolder folder;
  absl::string_view rest = name;
  if (!ConsumeNumber(rest, "step-", &folder.step) || !ConsumeNumber(rest, ".a", &folder.attempt) ||
      !ConsumeNumber(rest, ".g", &folder.generation)) {
    return std::nullopt;
  }
  if (!rest.empty()) {
    if (!absl::ConsumePrefix(&rest, ".") || !absl::ConsumeSuffix(&rest, ".tmp") || !IsNonce(rest)) {
      return std::nullopt;
    }
    folder.nonce = std::string(rest);
  }
  // Leading zeros and the like: only the one spelling counts.
  if (FolderName(folder) != name) return std::nullopt;
  return folder;
}

}  // namespace muster
