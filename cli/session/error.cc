#include "cli/session/error.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/output/document.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

constexpr char kHintUrl[] = "muster/hint";
constexpr char kKeyUrl[] = "muster/idempotency-key";
constexpr char kTimedOutUrl[] = "muster/timed-out";
constexpr char kRefused[] = "refused:";

bool Retryable(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kAborted;
}

// Words of a job or of another machine may stand in it: they must not steer the terminal.
std::string PlainLines(absl::string_view text) {
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n  ",
                       [](std::string* out, absl::string_view line) { *out += Plain(line); });
}

}  // namespace

absl::Status WithHint(absl::Status status, absl::string_view hint) {
  if (!status.ok() && !hint.empty()) status.SetPayload(kHintUrl, absl::Cord(hint));
  return status;
}

std::string HintOf(const absl::Status& status) {
  const auto hint = status.GetPayload(kHintUrl);
  return hint.has_value() ? std::string(*hint) : "";
}

absl::Status WithKey(absl::Status status, absl::string_view key) {
  if (!status.ok()) status.SetPayload(kKeyUrl, absl::Cord(key));
  return status;
}

absl::Status TimedOut(absl::string_view message) {
  absl::Status status = absl::DeadlineExceededError(message);
  status.SetPayload(kTimedOutUrl, absl::Cord("1"));
  return status;
}

absl::Status Interrupted(absl::string_view message) { return absl::CancelledError(message); }

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kNotAllowed;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kUnreachable;
    case absl::StatusCode::kDeadlineExceeded:
      return status.GetPayload(kTimedOutUrl).has_value() ? ExitCode::kTimedOut
                                                         : ExitCode::kUnreachable;
    case absl::StatusCode::kAlreadyExists:
      return ExitCode::kWrongState;
    case absl::StatusCode::kFailedPrecondition:
      return absl::StartsWith(status.message(), kRefused) ? ExitCode::kRefused
                                                          : ExitCode::kWrongState;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kRefused;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kInternal;
  }
}

ExitCode ExitCodeOf(const v1::JobSummary& job) {
  if (job.state() == v1::SUCCEEDED) return ExitCode::kDone;
  if (job.state() == v1::CANCELLED) return ExitCode::kJobCancelled;
  if (job.reason() == v1::RESTART_BUDGET_SPENT) return ExitCode::kJobBudgetSpent;
  if (job.reason() == v1::NO_PROGRESS) return ExitCode::kJobNoProgress;
  return ExitCode::kJobFailed;
}

std::string ErrorText(const absl::Status& status, bool json) {
  const std::string hint = HintOf(status);
  if (json) {
    Json error = Json::object();
    error["code"] = absl::StatusCodeToString(status.code());
    error["message"] = std::string(status.message());
    error["hint"] = hint.empty() ? Json(nullptr) : Json(hint);
    error["retryable"] = Retryable(status.code());
    const auto key = status.GetPayload(kKeyUrl);
    if (key.has_value()) error["idempotency_key"] = std::string(*key);
    return JsonLine(error);
  }
  std::string text = absl::StrCat("muster: ", PlainLines(status.message()), "\n");
  if (!hint.empty()) absl::StrAppend(&text, "  ", PlainLines(hint), "\n");
  return text;
}

}  // namespace muster::cli
