#include "controller/policy/restart_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/units.h"

namespace muster::controller {
namespace {

// What muster-trainer exits with when it cannot use its launch file or spec.
constexpr int32_t kUsageExitCode = 2;

bool WasBadSpec(const Attempt& attempt) {
  return attempt.failure_class == FailureClass::kStartFailed &&
         std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [](const Rank& rank) { return rank.exit_code == kUsageExitCode; });
}

// These follow from the job's own code and data, so that the same step brings them again.
bool Repeats(FailureClass kind) {
  return kind == FailureClass::kApplication || kind == FailureClass::kNonFinite;
}

bool SameAsBefore(const Job& job) {
  if (job.past.empty()) return false;
  const Attempt& now = *job.current;
  const Attempt& before = *job.past.back();
  return Repeats(now.failure_class) && before.failure_class == now.failure_class &&
         before.last_step == now.last_step;
}

absl::Duration Backoff(const RestartSettings& restart, uint32_t restarts_in_row) {
  absl::Duration wait = restart.backoff;
  for (uint32_t i = 0; i < restarts_in_row && wait < restart.max_backoff; ++i) wait *= 2;
  return std::min(wait, restart.max_backoff);
}

}  // namespace

RestartDecision DecideRestart(const Job& job) {
  MUSTER_CHECK(job.current != nullptr, "a restart is decided before the first placement");
  const Attempt& attempt = *job.current;
  const RestartSettings& restart = job.settings->restart;
  const absl::string_view kind = FailureClassName(attempt.failure_class);
  RestartDecision decision;
  if (attempt.failure_class == FailureClass::kPreempted) {
    decision.message = absl::StrCat("attempt ", attempt.number, " was preempted (", attempt.cause,
                                    "); queued again");
    return decision;
  }
  if (attempt.failure_class == FailureClass::kDataError ||
      attempt.failure_class == FailureClass::kOutOfMemory || WasBadSpec(attempt)) {
    decision.input = JobInput::kNotRetryable;
    decision.message = absl::StrCat(kind, ": ", attempt.cause, "; trying again would not help");
    return decision;
  }
  if (SameAsBefore(job)) {
    decision.input = JobInput::kNotRetryable;
    decision.message =
        absl::StrCat(kind, " twice in a row at step ", attempt.last_step, ": ", attempt.cause);
    return decision;
  }
  if (job.restarts_in_row >= restart.max_restarts) {
    decision.input = JobInput::kBudgetSpent;
    decision.message = absl::StrCat(
        kind, ": ", attempt.cause, "; restarted ", job.restarts_in_row,
        " times in a row without a new checkpoint (restart.max_restarts: ", restart.max_restarts,
        ")");
    return decision;
  }
  decision.charged = true;
  decision.wait = Backoff(restart, job.restarts_in_row);
  decision.message = absl::StrCat("attempt ", attempt.number, " lost (", kind, ": ", attempt.cause,
                                  "); restart ", job.restarts_in_row + 1, " of ",
                                  restart.max_restarts, " in ", HumanDuration(decision.wait));
  return decision;
}

}  // namespace muster::controller
