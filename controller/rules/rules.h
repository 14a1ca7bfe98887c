// Applies one event to a draft: what each kind of event changes. Pure: time comes as an argument.
//
// Used by the applier (and by tests). A rule that refuses an event leaves the draft as it was,
// except that a stale report is counted, marked as seen, and its sender told to stop that rank, and
// that, when the disk is full, those findings that need no storage are still applied.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/model/draft.h"
#include "controller/model/types/assignment_types.h"
#include "controller/model/types/events.h"
#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/limits/fair_share.h"

namespace muster::controller {

// Job ids by (owner, idempotency key), of what is durable.
using IdempotencyIndex = absl::flat_hash_map<std::pair<std::string, std::string>, uint64_t>;

// The key of an archived job stays in the index for so long. A submit that looked for its key among
// archived jobs longer ago looks again.
constexpr absl::Duration kArchivedKeyKept = absl::Minutes(1);

struct RuleContext {
  absl::Time now;         // wall clock, for records
  absl::Duration now_at;  // since boot, for deadlines
  const IdempotencyIndex* idempotency = nullptr;
  absl::Duration use_half_life = kUseHalfLife;
  QuarantineSettings quarantine = {};
  // Nothing more can be stored: events of agents and loops are applied only as far as they need no
  // storage (Draft::LeaveUnstored), and the rest is left for later.
  bool disk_full = false;
  const RestoredFrom* restored = nullptr;  // null: this state was never put back from a backup
};

// This moment in ledger time, which nobody can set.
inline absl::Time LedgerNow(const Draft& draft, const RuleContext& context) {
  return draft.view().LedgerTime(context.now_at);
}

EventResult Reduce(Draft& draft, const Event& event, const RuleContext& context);

// Whether the submit may be taken: FAILED_PRECONDITION "refused: ..." when it could never start,
// RESOURCE_EXHAUSTED over a quota of queued jobs, NOT_FOUND for a job that it waits for or begins
// from. If so, the checkpoints that it begins from. `wall` is the wall clock, `now` the time since
// boot.
absl::StatusOr<std::vector<uint64_t>> EvaluateSubmit(const Draft& draft, const SubmitJob& event,
                                                     absl::Time wall, absl::Duration now);

// The handlers, by kind of event.
EventResult OnSubmit(Draft& draft, const SubmitJob& event, const RuleContext& context);
EventResult OnCancel(Draft& draft, const CancelJob& event, const RuleContext& context);
EventResult OnSetProject(Draft& draft, const SetProject& event);
EventResult OnControl(Draft& draft, const ControlJob& event, const RuleContext& context);
EventResult OnUpdate(Draft& draft, const UpdateJob& event, const RuleContext& context);
EventResult OnPlan(Draft& draft, const ApplyPlan& event, const RuleContext& context);

EventResult OnHello(Draft& draft, const WorkerHello& event, const RuleContext& context);
EventResult OnDisconnected(Draft& draft, const WorkerDisconnected& event);
EventResult OnHeartbeat(Draft& draft, const WorkerHeartbeat& event, const RuleContext& context);
EventResult OnSilent(Draft& draft, const WorkerSilent& event, const RuleContext& context);
EventResult OnNotice(Draft& draft, const WorkerNotice& event, const RuleContext& context);
EventResult OnCordon(Draft& draft, const CordonWorker& event, const RuleContext& context);
EventResult OnForgetWorker(Draft& draft, const ForgetWorker& event);
EventResult OnExpired(Draft& draft, const WorkerExpired& event);
EventResult OnAssignmentAck(Draft& draft, const AssignmentAcked& event, const RuleContext& context);

EventResult OnRankReport(Draft& draft, const RankReport& event, const RuleContext& context);
EventResult OnStartTimedOut(Draft& draft, const StartTimedOut& event, const RuleContext& context);
EventResult OnHung(Draft& draft, const RankHung& event, const RuleContext& context);

EventResult OnLimit(Draft& draft, const LimitPassed& event, const RuleContext& context);

EventResult OnFindings(Draft& draft, const Findings& event, const RuleContext& context);

EventResult OnCheckpointReport(Draft& draft, const CheckpointReport& event,
                               const RuleContext& context);
EventResult OnRequestVerify(Draft& draft, const RequestVerify& event);
EventResult OnControlCheckpoint(Draft& draft, const ControlCheckpoint& event);
EventResult OnAssignCheckpointWork(Draft& draft, const AssignCheckpointWork& event);
EventResult OnVerifyReport(Draft& draft, const VerifyReport& event, const RuleContext& context);
EventResult OnDeleteReport(Draft& draft, const DeleteReport& event, const RuleContext& context);

EventResult OnArchiveJobs(Draft& draft, const ArchiveJobs& event);
EventResult OnRestoreJobs(Draft& draft, const RestoreJobs& event, const RuleContext& context);

EventResult OnReconcileRoots(Draft& draft, const ReconcileRoots& event, const RuleContext& context);
// Takes in what an agent reports of the roots that it watches.
void TakeRootViews(Draft& draft, uint64_t worker_id, const RootViews& said);

// Takes in what an agent says of the data that it was asked to look at.
void TakeDataVerdicts(Draft& draft, uint64_t worker_id, const std::vector<DataVerdict>& verdicts,
                      const RuleContext& context);

inline EventResult Refuse(absl::Status status) {
  EventResult result;
  result.status = std::move(status);
  return result;
}

}  // namespace muster::controller
