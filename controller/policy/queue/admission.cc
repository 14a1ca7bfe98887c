#include "controller/policy/queue/admission.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/limits/dependencies.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/policy/placement/preemption.h"

namespace muster::controller {
namespace {

Admission Bar(std::string message) {
  Admission admission;
  admission.decision = Admission::Decision::kBlocked;
  admission.message = std::move(message);
  return admission;
}

// Whether the wait before the attempt still counts after it: it failed, or was resized.
bool GoesOnAfter(const Attempt& attempt) {
  return attempt.reason == Reason::kResized || (attempt.failure_class != FailureClass::kNone &&
                                                attempt.failure_class != FailureClass::kPreempted);
}

}  // namespace

Admission Admit(const Snapshot& snapshot, const Job& job, const ScheduleContext& context) {
  Admission admission;
  const uint64_t first = WaitingPreemptor(snapshot, job, snapshot.LedgerTime(context.now));
  if (job.state == JobState::kRecovering && first != 0) {
    admission.waits_for = first;
    return admission;
  }
  if (job.state == JobState::kRecovering) {
    if (!job.suspending) admission.decision = Admission::Decision::kSoon;
    return admission;
  }
  if (job.state != JobState::kPending) return admission;
  const SchedulingSettings& scheduling = job.settings->scheduling;
  if (job.held) {
    return Bar(absl::StrCat("held: `muster release ", job.id, "` lets it start"));
  }
  const DependencyStatus others = EvaluateDependencies(snapshot, job);
  if (others.state != DependencyOutlook::kMet) {
    admission = Bar(others.message);
    admission.waits_for = others.job_id;
    admission.waits_for_array = others.whole_array;
    return admission;
  }
  if (first != 0) {
    admission = Bar(absl::StrCat("has made way for job ", first, ", which gets the slots first"));
    admission.again_at = snapshot.SinceBoot(HeldUntil(*job.current)) + kPreemptorWait;
    admission.waits_for = first;
    return admission;
  }
  if (scheduling.begin > context.wall) {
    admission = Bar(absl::StrCat(
        "not before ", absl::FormatTime(absl::RFC3339_sec, scheduling.begin, absl::UTCTimeZone())));
    admission.again = scheduling.begin;
    return admission;
  }
  // The limits loop ends it a moment later.
  if (std::optional<PassedLimit> limit =
          EvaluateLimits(snapshot, job, {context.wall, context.now})) {
    return Bar(std::move(limit->message));
  }
  admission.decision = Admission::Decision::kReady;
  if (job.not_before_at > context.now) {
    admission.decision = Admission::Decision::kSoon;
    admission.again_at = job.not_before_at;
  }
  return admission;
}

absl::Duration AdmittedSince(const Snapshot& snapshot, const Job& job, absl::Duration now,
                             absl::Time wall) {
  absl::Duration since = job.not_before_at;
  const absl::Time met = DependenciesMetAt(snapshot, job);
  if (met > absl::InfinitePast()) since = std::max(since, snapshot.SinceBoot(met));
  const absl::Time begin = job.settings->scheduling.begin;
  if (begin > absl::InfinitePast()) since = std::max(since, now - (wall - begin));
  return since;
}

absl::Duration Waited(const Job& job, absl::Time now) {
  absl::Duration waited;
  // Backwards through the waits: the end of the current one; nothing between two.
  std::optional<absl::Time> until;
  if (job.state == JobState::kPending) {
    until = now;
  } else if (job.state == JobState::kRecovering && job.current != nullptr &&
             !GoesOnAfter(*job.current)) {
    return waited;
  }
  for (auto it = job.events.rbegin(); it != job.events.rend(); ++it) {
    const JobEvent& event = **it;
    if (event.from == event.to) continue;
    if (event.from == JobState::kPending) until = HappenedAt(event);
    if (event.to != JobState::kPending) continue;
    if (until.has_value()) waited += *until - HappenedAt(event);
    until.reset();
    const Attempt* before = FindAttempt(job, event.attempt);
    const bool goes_on = event.reason == Reason::kAttemptCleared && before != nullptr;
    if (!goes_on || !GoesOnAfter(*before)) return waited;
  }
  if (until.has_value()) waited += *until - SubmittedAt(job);
  return waited;
}

bool IsOpenTo(const Job& job, const JobNeeds::Pool& pool, absl::Time now) {
  const bool at_once = job.settings->needs.pools.size() == 1 || pool.after <= absl::ZeroDuration();
  return at_once || Waited(job, now) >= pool.after;
}

}  // namespace muster::controller
