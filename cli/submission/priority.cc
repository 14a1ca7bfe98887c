#include "cli/submission/priority.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster::cli {
namespace {

constexpr absl::string_view kClasses[] = {"low", "normal", "high", "urgent"};
constexpr int32_t kStep = 1000;  // between two classes
constexpr int32_t kMostNumber = 999;

}  // namespace

absl::StatusOr<PriorityText> ParsePriority(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is no priority: give a number from -999 to 999, low, normal, high "
                   "or urgent, or both, such as high+5"));
  PriorityText out;
  for (const absl::string_view name : kClasses) {
    if (text.substr(0, name.size()) == name) {
      out.priority_class = std::string(name);
      text.remove_prefix(name.size());
      break;
    }
  }
  if (text.empty()) return out.priority_class.empty() ? wrong : absl::StatusOr<PriorityText>(out);
  const bool signed_number = text.front() == '+' || text.front() == '-';
  if (!out.priority_class.empty() && !signed_number) return wrong;
  int32_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < -kMostNumber || number > kMostNumber) {
    return wrong;
  }
  out.number = number;
  return out;
}

int32_t TotalPriority(const PriorityText& priority) {
  int32_t steps = 0;
  for (int32_t i = 0; i < 4; ++i) {
    if (priority.priority_class == kClasses[i]) steps = i - 1;
  }
  return steps * kStep + priority.number.value_or(0);
}

}  // namespace muster::cli
