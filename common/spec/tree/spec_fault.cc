#include "common/spec/tree/spec_fault.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace muster {
namespace {

constexpr size_t kMaxShownValueBytes = 60;

// Optimal string alignment: edits plus swaps of neighbours.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string FaultText(const SpecFault& fault) {
  return absl::StrCat(fault.line > 0 ? absl::StrCat("line ", fault.line, ": ") : "",
                      fault.path.empty() ? "" : absl::StrCat(fault.path, ": "), fault.message);
}

absl::Status FaultStatus(absl::string_view source, std::vector<SpecFault> faults,
                         size_t max_shown) {
  if (faults.empty()) return absl::OkStatus();
  // What has no line (missing, or from --set) comes last.
  std::stable_sort(faults.begin(), faults.end(), [](const SpecFault& a, const SpecFault& b) {
    return (a.line == 0 ? INT32_MAX : a.line) < (b.line == 0 ? INT32_MAX : b.line);
  });
  if (faults.size() == 1) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", FaultText(faults[0])));
  }
  std::string text = absl::StrCat(source, ": ", faults.size(), " faults:");
  for (size_t i = 0; i < std::min(max_shown, faults.size()); ++i) {
    absl::StrAppend(&text, "\n  ", FaultText(faults[i]));
  }
  if (faults.size() > max_shown) {
    absl::StrAppend(&text, "\n  and ", faults.size() - max_shown, " more");
  }
  return absl::InvalidArgumentError(text);
}

std::string NearestName(absl::string_view given, const std::vector<std::string>& names) {
  if (given.size() > 64) return "";
  // One edit in three letters, at least one and at most three.
  const size_t most = std::clamp<size_t>(given.size() / 3, 1, 3);
  std::string best;
  size_t best_distance = most + 1;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(given, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string ShownValue(absl::string_view text) {
  std::string shown;
  for (const char c : CutUtf8(text, kMaxShownValueBytes))
    shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return text.size() <= kMaxShownValueBytes ? shown : shown + "...";
}

}  // namespace muster
