#include "controller/policy/explain/forecast.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxNames = 8;

std::string Place(const Explanation& explanation) {
  std::vector<std::string> workers;
  for (const RankPlacement& rank : explanation.ranks) {
    if (workers.empty() || workers.back() != rank.worker) workers.push_back(rank.worker);
  }
  const size_t shown = std::min(workers.size(), kMaxNames);
  const size_t more = workers.size() - shown;
  return absl::StrCat(explanation.ranks.size(), explanation.ranks.size() == 1 ? " rank" : " ranks",
                      " on ", absl::StrJoin(workers.begin(), workers.begin() + shown, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::string Length(const Explanation& explanation) {
  const char* by = nullptr;
  switch (explanation.run_time_source) {
    case RunTimeSource::kDeclared:
      by = " as declared";
      break;
    case RunTimeSource::kLearned:
      by = " as earlier ones of its name";
      break;
    case RunTimeSource::kLimit:
      by = " at most";
      break;
    case RunTimeSource::kProgress:
      by = " as its progress foretells";
      break;
    case RunTimeSource::kUnknown:
      return "; for how long nobody can tell: declare scheduling.expected_run_time";
  }
  std::string text = absl::StrCat("; for ", HumanDuration(explanation.run_time), by);
  if (explanation.slot_hours >= 0) {
    absl::StrAppendFormat(&text, ", %.2f slot-hours", explanation.slot_hours);
  }
  return text;
}

}  // namespace

std::string ForecastLine(const Explanation& explanation, absl::Time now) {
  if (explanation.blockers.empty()) {
    return absl::StrCat("would start now: ", Place(explanation), Length(explanation));
  }
  std::string text = absl::StrCat("would wait: ", explanation.reason);
  if (explanation.start == absl::InfiniteFuture()) {
    absl::StrAppend(&text, "; when it could start nobody can tell: ", explanation.why_unknown);
  } else {
    absl::StrAppend(&text, "; could start at ",
                    absl::FormatTime("%Y-%m-%d %H:%M:%S", explanation.start, absl::UTCTimeZone()),
                    " UTC, in ",
                    HumanDuration(absl::Ceil(explanation.start - now, absl::Seconds(1))), ": ",
                    Place(explanation));
  }
  return absl::StrCat(text, Length(explanation));
}

}  // namespace muster::controller
