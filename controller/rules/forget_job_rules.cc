// Jobs that ended long ago leave the model (policy/ended/ended_job_rules).
#include <optional>

#include "controller/policy/ended/ended_job_rules.h"
#include "controller/rules/rules.h"

namespace muster::controller {

EventResult OnForgetJobs(Draft& draft, const ForgetJobs& event) {
  // Something may have come in between, even in this very batch. What that touches stays for now.
  const std::set<uint64_t> needed = NeededYet(draft.view(), draft.EditedJobs());
  size_t jobs = 0;
  size_t events = 0;
  for (const ForgetJobs::Ended& proposed : event.jobs) {
    if (jobs >= ForgetJobs::kMost || events >= ForgetJobs::kMostEvents) break;
    const std::optional<EndedJobs> ended = EvaluateEnded(draft.view(), needed, proposed.job_id);
    if (!ended.has_value() || ended->finished != proposed.finished) continue;
    jobs += ended->size();
    for (uint64_t id = ended->last; id >= ended->first; --id) {
      events += draft.view().FindJob(id)->events.size();
      draft.ForgetJob(id);
    }
  }
  return {};
}

}  // namespace muster::controller
