#include "controller/rules/workers/restore_rules.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "controller/rules/jobs/job_driver.h"

namespace muster::controller {
namespace {

constexpr size_t kMostNamed = 20;  // ranks of one worker

bool HasTaken(const Snapshot& snapshot, const SlotHolder& holder, const WorkerHello& event) {
  for (uint64_t seq : snapshot.outbox.Of(event.worker)) {
    const OutboxRow* row = snapshot.outbox.Find(seq);
    if (row->kind == AssignmentKind::kStart && row->fence.job_id == holder.job_id &&
        row->fence.attempt == holder.attempt) {
      return seq <= event.last_assignment_seq;
    }
  }
  return true;
}

bool IsAlive(const WorkerHello& event, const SlotHolder& holder) {
  return std::any_of(event.ranks.begin(), event.ranks.end(), [&](const RankStatus& status) {
    return status.fence.job_id == holder.job_id && status.fence.attempt == holder.attempt &&
           status.rank == holder.rank;
  });
}

}  // namespace

bool IsOfBeforeTheRestore(const Snapshot& snapshot, const RestoredFrom& restored,
                          const WorkerHello& event) {
  return event.last_controller == snapshot.controller_id &&
         event.last_term <= restored.restored_at_term;
}

std::vector<std::string> UnknownToBackup(const Snapshot& snapshot, const RestoredFrom& restored,
                                         const WorkerHello& event) {
  std::vector<std::string> unknown;
  if (!IsOfBeforeTheRestore(snapshot, restored, event)) return unknown;
  if (event.last_term > restored.term) {
    unknown.push_back(absl::StrCat("it has served term ", event.last_term,
                                   ", the backup is of term ", restored.term));
  }
  if (event.last_assignment_seq > restored.last_outbox) {
    unknown.push_back("it was given work since");
  }
  const Worker* known = snapshot.FindWorker(event.worker);
  const uint64_t acknowledged = event.acknowledged_event_seq.value_or(0);
  const bool is_same_life = known != nullptr && known->incarnation == event.incarnation;
  if (is_same_life && known->event_seq_known && acknowledged > known->event_seq) {
    unknown.push_back(absl::StrCat(acknowledged - known->event_seq,
                                   " of its reports (starts, ends, checkpoints) came since"));
  } else if (!is_same_life && acknowledged > 0) {
    unknown.push_back(absl::StrCat("its agent began to work since, and sent ", acknowledged,
                                   " reports (starts, ends, checkpoints)"));
  }
  size_t named = 0;
  for (const RankStatus& status : event.ranks) {
    const Fence& fence = status.fence;
    if (FindLiveRank(snapshot, fence, status.rank, event.worker, event.incarnation) != nullptr) {
      continue;
    }
    if (++named > kMostNamed) continue;
    unknown.push_back(absl::StrCat("it runs rank ", status.rank, " of job ", fence.job_id,
                                   ", attempt ", fence.attempt, ", at step ", status.step));
  }
  if (named > kMostNamed) unknown.push_back(absl::StrCat(named - kMostNamed, " more ranks"));
  return unknown;
}

void EndRanksThatAreGone(Draft& draft, uint64_t worker_id, const WorkerHello& event,
                         const RuleContext& context) {
  const std::map<uint32_t, SlotHolder> holders =
      draft.view().workers.Find(worker_id)->pulse.holders;
  for (const auto& [slot, holder] : holders) {
    const Job* job = draft.view().FindJob(holder.job_id);
    if (job == nullptr || job->current == nullptr) continue;
    const Fence fence{
        .job_id = holder.job_id, .attempt = holder.attempt, .generation = job->current->generation};
    const Rank* rank =
        FindLiveRank(draft.view(), fence, holder.rank, event.worker, event.incarnation);
    if (rank == nullptr || IsAlive(event, holder) || !HasTaken(draft.view(), holder, event)) {
      continue;
    }
    const std::string cause =
        absl::StrCat("worker ", event.worker, ": its rank ", holder.rank,
                     " ended after the backup that the controller was restored from");
    draft.EditRank(holder.job_id, holder.rank).state = RankState::kExited;
    NoteFailure(draft, holder.job_id, {.failure_class = FailureClass::kWorkerLost, .cause = cause});
    const absl::Status driven =
        DriveJob(draft, holder.job_id,
                 {.input = JobInput::kWorkerGone, .actor = "restore", .message = cause}, context);
    if (driven.ok()) EndAttemptIfRanksGone(draft, holder.job_id, context);
    ReleaseSlot(draft, holder.job_id, holder.attempt, holder.rank);
  }
}

}  // namespace muster::controller
