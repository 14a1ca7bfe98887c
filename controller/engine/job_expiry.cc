// Ended jobs that are forgotten (policy/expiry_rules).
#include "controller/engine/rules.h"
#include "controller/policy/expiry_rules.h"

namespace muster::controller {

EventResult OnJobsExpired(Draft& draft, const JobsExpired& event) {
  for (const JobsExpired::Going& job : event.jobs) {
    // Something of it changes at this moment: the next look comes to it again.
    if (draft.IsTouched(job.id)) return {};
  }
  if (!MayStillExpire(draft.view(), event)) return {};
  for (const JobsExpired::Going& job : event.jobs) draft.ForgetJob(job.id, job.heir);
  return {};
}

}  // namespace muster::controller
