// Priorities as people write them: a number, a class, or both: `250`, `high`, `high+5`, `low-10`.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::cli {

struct PriorityText {
  std::string priority_class;  // "low", "normal", "high", "urgent"; empty: none was given
  std::optional<int32_t> number;
};

// INVALID_ARGUMENT says what is allowed.
absl::StatusOr<PriorityText> ParsePriority(absl::string_view text);

// Class and number together, as the controller orders by; a number alone counts from normal.
int32_t TotalPriority(const PriorityText& priority);

}  // namespace muster::cli
