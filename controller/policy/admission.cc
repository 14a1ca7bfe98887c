#include "controller/policy/admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/policy/dependencies.h"
#include "controller/policy/preemption.h"

namespace muster::controller {
namespace {

Admission Bar(std::string message) {
  Admission admission;
  admission.verdict = Admission::Verdict::kBarred;
  admission.message = std::move(message);
  return admission;
}

}  // namespace

Admission Admit(const Snapshot& snapshot, const Job& job, const ScheduleContext& context) {
  Admission admission;
  const uint64_t first = YieldsTo(snapshot, job, context.wall);
  if (job.state == JobState::kRecovering && first != 0) {
    admission.waits_for = first;
    return admission;
  }
  if (job.state == JobState::kRecovering) {
    if (!job.suspending) admission.verdict = Admission::Verdict::kSoon;
    return admission;
  }
  if (job.state != JobState::kPending) return admission;
  const SchedulingSettings& scheduling = job.settings->scheduling;
  if (job.held) {
    return Bar(absl::StrCat("held: `muster release ", job.id, "` lets it start"));
  }
  const DependencyVerdict others = JudgeDependencies(snapshot, job);
  if (others.state != DependencyOutlook::kMet) {
    admission = Bar(others.message);
    admission.waits_for = others.job_id;
    admission.waits_for_array = others.whole_array;
    return admission;
  }
  if (first != 0) {
    admission = Bar(absl::StrCat("has made way for job ", first, ", which gets the slots first"));
    admission.again = job.current->ended + kYieldFor;
    admission.waits_for = first;
    return admission;
  }
  if (scheduling.begin > context.wall) {
    admission = Bar(absl::StrCat(
        "not before ", absl::FormatTime(absl::RFC3339_sec, scheduling.begin, absl::UTCTimeZone())));
    admission.again = scheduling.begin;
    return admission;
  }
  admission.verdict = Admission::Verdict::kReady;
  if (job.not_before_at > context.now) {
    admission.verdict = Admission::Verdict::kSoon;
    admission.again_at = job.not_before_at;
  }
  return admission;
}

absl::Time WaitingSince(const Job& job) {
  for (auto it = job.events.rbegin(); it != job.events.rend(); ++it) {
    const JobEvent& event = **it;
    if (event.to == JobState::kPending && event.from != JobState::kPending) return event.time;
  }
  return job.submitted;
}

bool IsOpenTo(const Job& job, const JobNeeds::Pool& pool, absl::Time now) {
  const bool at_once = job.settings->needs.pools.size() == 1 || pool.after <= absl::ZeroDuration();
  return at_once || now - WaitingSince(job) >= pool.after;
}

}  // namespace muster::controller
