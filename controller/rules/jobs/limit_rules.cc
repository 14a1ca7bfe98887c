// What becomes of a job that has passed one of its limits (policy/limits/time_limits).
#include <utility>

#include "controller/policy/limits/time_limits.h"
#include "controller/rules/jobs/job_driver.h"
#include "controller/rules/rules.h"

namespace muster::controller {

EventResult OnLimit(Draft& draft, const LimitPassed& event, const RuleContext& context) {
  const Job* job = draft.view().FindJob(event.job_id);
  if (job == nullptr) return {};
  // Something else may have come first.
  std::optional<PassedLimit> limit =
      EvaluateLimits(draft.view(), *job, {context.now, context.now_at});
  if (!limit.has_value()) return {};
  if (job->has_live_attempt()) {
    NoteFailure(draft, event.job_id,
                {.failure_class = FailureClass::kTimeLimit, .cause = limit->message});
  } else if (limit->input != JobInput::kDependencyFailed) {
    draft.EditJob(event.job_id).failure_class = limit->input == JobInput::kNotRetryable
                                                    ? FailureClass::kCorruption
                                                    : FailureClass::kTimeLimit;
  }
  EventResult result;
  result.status =
      DriveJob(draft, event.job_id,
               {.input = limit->input, .actor = "controller", .message = std::move(limit->message)},
               context);
  if (result.status.ok()) EndAttemptIfRanksGone(draft, event.job_id, context);
  return result;
}

}  // namespace muster::controller
