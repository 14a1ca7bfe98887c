#include "common/spec/tree/scheduling_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/spec/tree/spec_fault.h"

namespace muster {
namespace {

constexpr uint32_t kMaxTaskNumber = 1'000'000;
constexpr absl::Duration kMaxPoolWait = absl::Hours(24 * 30);

absl::Status Bad(absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(what, "; got '", ShownValue(text), "'"));
}

}  // namespace

absl::StatusOr<PoolChoice> ParsePoolChoice(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipWhitespace());
  PoolChoice choice;
  if (words.size() == 1) {
    choice.name = words[0];
    return choice;
  }
  if (words.size() != 3 || words[1] != "after") {
    return Bad("must be a pool's name, or 'NAME after 10m'", text);
  }
  choice.name = words[0];
  MUSTER_ASSIGN_OR_RETURN(choice.after, ParseDuration(words[2]));
  if (choice.after < absl::ZeroDuration() || choice.after > kMaxPoolWait) {
    return Bad("the wait must be from 0s to 720h", text);
  }
  return choice;
}

absl::StatusOr<JobDependency> ParseDependency(absl::string_view text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  JobDependency dependency;
  const std::pair<std::string, std::string> id =
      absl::StrSplit(parts.first, absl::MaxSplits('_', 1));
  uint32_t task = 0;
  const bool of_array = id.first.size() < parts.first.size();
  if (!absl::SimpleAtoi(id.first, &dependency.job_id) || dependency.job_id == 0 ||
      (of_array && !absl::SimpleAtoi(id.second, &task))) {
    return Bad(
        "must be a job's id (42, or 42_7 of an array), alone or with ':ok', ':fail' or "
        "':any'",
        text);
  }
  if (of_array) dependency.task = task;
  if (parts.second == "fail") {
    dependency.on = JobDependency::On::kFailure;
  } else if (parts.second == "any") {
    dependency.on = JobDependency::On::kEnd;
  } else if (parts.second != "ok" && (!parts.second.empty() || text.back() == ':')) {
    return Bad("after the job's id: ':ok', ':fail' or ':any'", text);
  }
  return dependency;
}

absl::StatusOr<JobArray> ParseArray(absl::string_view text) {
  constexpr const char* kForm = "must be like '1-20' or '1-20%4'";
  const std::vector<std::string> limit = absl::StrSplit(text, '%');
  const std::vector<std::string> ends = absl::StrSplit(limit[0], '-');
  JobArray array;
  const bool read = limit.size() <= 2 && ends.size() <= 2 &&
                    absl::SimpleAtoi(ends.front(), &array.first) &&
                    absl::SimpleAtoi(ends.back(), &array.last) &&
                    (limit.size() == 1 || absl::SimpleAtoi(limit[1], &array.at_a_time));
  if (!read || (limit.size() == 2 && array.at_a_time == 0)) return Bad(kForm, text);
  if (array.last < array.first || array.last > kMaxTaskNumber) {
    return Bad(absl::StrCat(kForm, ", rising, with numbers up to ", kMaxTaskNumber), text);
  }
  if (array.last - array.first >= JobArray::kMaxTasks) {
    return Bad(absl::StrCat("must have at most ", JobArray::kMaxTasks, " jobs"), text);
  }
  return array;
}

absl::StatusOr<absl::Time> ParseWallTime(absl::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return Bad("must be a time with a zone, such as 2026-11-22T10:00:00Z", text);
  }
  return time;
}

absl::StatusOr<uint64_t> ParseMemory(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
  if (bytes == 0) return Bad("must be above 0", text);
  return bytes;
}

}  // namespace muster
