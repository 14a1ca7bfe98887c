#include "common/spec/validate/resume_from.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/protocol/name_rule.h"
#include "common/spec/tree/spec_fault.h"

namespace muster {
namespace {

constexpr size_t kMaxBytes = 128;

absl::Status Bad(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("must be a job (its id, its name, or 42_7 of an array), JOB@STEP, JOB@best, "
                   "JOB@newest, or auto; got '",
                   ShownValue(text), "'"));
}

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// As all verbs take a job: digits are an id.
bool ReadJob(absl::string_view text, ResumeFrom& out) {
  if (IsDigits(text)) return absl::SimpleAtoi(text, &out.job_id) && out.job_id != 0;
  const std::pair<absl::string_view, absl::string_view> task =
      absl::StrSplit(text, absl::MaxSplits('_', 1));
  if (task.first.size() < text.size()) {
    uint32_t index = 0;
    const bool read = IsDigits(task.first) && absl::SimpleAtoi(task.first, &out.job_id) &&
                      out.job_id != 0 && IsDigits(task.second) &&
                      absl::SimpleAtoi(task.second, &index);
    if (read) out.task = index;
    return read;
  }
  out.job_name = std::string(text);
  return IsName(text);
}

}  // namespace

absl::StatusOr<ResumeFrom> ParseResumeFrom(absl::string_view text) {
  ResumeFrom out;
  if (text.size() > kMaxBytes) return Bad(text);
  if (text == "auto") {
    out.automatic = true;
    return out;
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  if (!ReadJob(parts.first, out)) return Bad(text);
  if (parts.first.size() == text.size()) return out;
  if (parts.second == "best") {
    out.which = ResumeFrom::Which::kBest;
  } else if (parts.second == "newest") {
    out.which = ResumeFrom::Which::kNewest;
  } else if (IsDigits(parts.second) && absl::SimpleAtoi(parts.second, &out.step)) {
    out.which = ResumeFrom::Which::kStep;
  } else {
    return Bad(text);
  }
  return out;
}

}  // namespace muster
