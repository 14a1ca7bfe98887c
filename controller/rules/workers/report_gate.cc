#include "controller/rules/workers/report_gate.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/rules/jobs/job_driver.h"

namespace muster::controller {

absl::StatusOr<const Worker*> FindSender(const Snapshot& snapshot, const std::string& worker,
                                         const std::string& incarnation) {
  const Worker* found = snapshot.FindWorker(worker);
  if (found == nullptr || found->incarnation != incarnation) {
    return absl::AlreadyExistsError(
        absl::StrCat("worker ", worker, ": another agent holds this name now"));
  }
  return found;
}

absl::StatusOr<Gate> PassGate(Draft& draft, const std::string& worker,
                              const std::string& incarnation, uint64_t event_seq) {
  MUSTER_ASSIGN_OR_RETURN(const Worker* sender, FindSender(draft.view(), worker, incarnation));
  if (event_seq == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", worker, ": a report without event_seq"));
  }
  if (sender->event_seq_known) {
    if (event_seq <= sender->event_seq) {
      ++draft.counters().duplicate_events;
      return Gate::kDuplicate;
    }
    if (event_seq != sender->event_seq + 1) {
      return absl::AbortedError(absl::StrCat("worker ", worker, ": report ", event_seq,
                                             " came before report ", sender->event_seq + 1,
                                             "; connect again and repeat"));
    }
  }
  Worker& edited = draft.EditWorker(sender->id);
  edited.event_seq = event_seq;
  edited.event_seq_known = true;
  return Gate::kOpen;
}

EventResult RefuseStale(Draft& draft, const Worker& sender, const Fence& fence, bool alive) {
  ++draft.counters().stale_reports;
  const std::string reason =
      absl::StrCat("job ", fence.job_id, ": attempt ", fence.attempt, " generation ",
                   fence.generation, " is not live here (fenced)");
  if (alive) {
    OrderStop(draft, sender,
              {.fence = fence, .mode = StopMode::kKill, .grace = {}, .reason = reason});
  }
  EventResult result;
  result.fenced = true;
  result.status = absl::FailedPreconditionError(reason);
  return result;
}

}  // namespace muster::controller
