#include "controller/rules/jobs/preemption_rules.h"

#include "common/base/check.h"
#include "controller/rules/jobs/job_driver.h"

namespace muster::controller {
namespace {

bool StillApplies(const Snapshot& snapshot, const StopGang& stop) {
  const Job* job = snapshot.FindJob(stop.job_id);
  if (job == nullptr || !job->has_live_attempt() || job->current->number != stop.attempt) {
    return false;
  }
  const bool holds = job->state == JobState::kStarting || job->state == JobState::kRunning;
  if (!holds || job->current->save_requested) return false;
  const JobNeeds& needs = job->settings->needs;
  const size_t ranks = job->current->ranks.size();
  if (stop.why == StopGang::Why::kGrow) {
    return job->settings->scheduling.preemptible && ranks < needs.max_ranks;
  }
  const Job* other = snapshot.FindJob(stop.for_job);
  const bool waits = other != nullptr && other->state == JobState::kPending && !other->held;
  if (!waits || !job->settings->scheduling.preemptible) return false;
  return stop.why == StopGang::Why::kShrink
             ? other->settings->priority >= job->settings->priority && ranks > needs.min_ranks
             : other->settings->priority > job->settings->priority;
}

}  // namespace

void StopRunningGang(Draft& draft, const StopGang& stop, const RuleContext& context) {
  if (!StillApplies(draft.view(), stop)) return;
  NoteFailure(draft, stop.job_id,
              {.failure_class = FailureClass::kPreempted, .cause = stop.reason});
  draft.EditAttempt(stop.job_id).preempted_by = stop.for_job;
  const JobInput input =
      stop.why == StopGang::Why::kPreempt ? JobInput::kPreempt : JobInput::kResize;
  const absl::Status driven = DriveJob(
      draft, stop.job_id, {.input = input, .actor = "scheduler", .message = stop.reason}, context);
  MUSTER_CHECK(driven.ok(), "a gang that holds slots could not be told to make way");
  EndAttemptIfRanksGone(draft, stop.job_id, context);
}

}  // namespace muster::controller
