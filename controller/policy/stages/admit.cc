#include "controller/policy/stages/admit.h"

#include <algorithm>

#include "controller/policy/checkpoints/root_rules.h"
#include "controller/policy/stages/wait_reason.h"

namespace muster::controller {

std::optional<Candidate> AdmitToRound(Round& round, uint64_t job_id, JobGroup& group) {
  const Job& job = *round.snapshot.FindJob(job_id);
  const absl::Duration now = round.context.now;
  const bool backs_off = job.state == JobState::kPending && job.not_before_at > now;
  if (backs_off && job.not_before_at > now + round.settings.keep_for_back_off) return std::nullopt;
  const absl::Duration looked_at = RootProbesAwaitedUntil(round.snapshot, job.settings->needs, now);
  if (job.state == JobState::kPending && looked_at > now) {
    round.decision.due_at = std::min(round.decision.due_at, looked_at);
    SetWaitReason(round, job, "waits until all workers have looked at its checkpoint root");
    return std::nullopt;
  }
  return Candidate{.job = job,
                   .group = group,
                   .reserve_only = backs_off || job.state == JobState::kRecovering,
                   .max_ranks = 0,
                   .partitions = {},
                   .failed_on = {}};
}

}  // namespace muster::controller
