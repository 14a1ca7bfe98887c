#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

struct Dispatch {
  Draft& draft;
  const RuleContext& context;

  EventResult operator()(const SubmitJob& e) const { return OnSubmit(draft, e, context); }
  EventResult operator()(const CancelJob& e) const { return OnCancel(draft, e, context); }
  EventResult operator()(const ControlJob& e) const { return OnControl(draft, e, context); }
  EventResult operator()(const UpdateJob& e) const { return OnUpdate(draft, e, context); }
  EventResult operator()(const CordonWorker& e) const { return OnCordon(draft, e, context); }
  EventResult operator()(const ForgetWorker& e) const { return OnForgetWorker(draft, e); }
  EventResult operator()(const RequestVerify& e) const { return OnRequestVerify(draft, e); }
  EventResult operator()(const ControlCheckpoint& e) const { return OnControlCheckpoint(draft, e); }
  EventResult operator()(const SetProject& e) const { return OnSetProject(draft, e); }
  EventResult operator()(const WorkerHello& e) const { return OnHello(draft, e, context); }
  EventResult operator()(const WorkerDisconnected& e) const { return OnDisconnected(draft, e); }
  EventResult operator()(const WorkerHeartbeat& e) const { return OnHeartbeat(draft, e, context); }
  EventResult operator()(const AssignmentAcked& e) const {
    return OnAssignmentAck(draft, e, context);
  }
  EventResult operator()(const RankReport& e) const { return OnRankReport(draft, e, context); }
  EventResult operator()(const CheckpointReport& e) const {
    return OnCheckpointReport(draft, e, context);
  }
  EventResult operator()(const VerifyReport& e) const { return OnVerifyReport(draft, e, context); }
  EventResult operator()(const DeleteReport& e) const { return OnDeleteReport(draft, e, context); }
  EventResult operator()(const WorkerNotice& e) const { return OnNotice(draft, e, context); }
  EventResult operator()(const ApplyPlan& e) const { return OnPlan(draft, e, context); }
  EventResult operator()(const Findings& e) const { return OnFindings(draft, e, context); }
  EventResult operator()(const AssignCheckpointWork& e) const {
    return OnAssignCheckpointWork(draft, e);
  }
  EventResult operator()(const ArchiveJobs& e) const { return OnArchiveJobs(draft, e); }
  EventResult operator()(const RestoreJobs& e) const { return OnRestoreJobs(draft, e, context); }

  EventResult operator()(const WorkerSilent& e) const { return OnSilent(draft, e, context); }
  EventResult operator()(const StartTimedOut& e) const {
    return OnStartTimedOut(draft, e, context);
  }
  EventResult operator()(const RankHung& e) const { return OnHung(draft, e, context); }
  EventResult operator()(const LimitPassed& e) const { return OnLimit(draft, e, context); }
  EventResult operator()(const WorkerExpired& e) const { return OnExpired(draft, e); }
  EventResult operator()(const ReconcileRoots& e) const {
    return OnReconcileRoots(draft, e, context);
  }
};

bool NeedsNoRoom(const Finding& finding) {
  const auto* silent = std::get_if<WorkerSilent>(&finding);
  return silent != nullptr && silent->presence == Presence::kSuspect;
}

}  // namespace

EventResult Reduce(Draft& draft, const Event& event, const RuleContext& context) {
  return std::visit(Dispatch{draft, context}, event);
}

EventResult OnFindings(Draft& draft, const Findings& event, const RuleContext& context) {
  for (const Finding& finding : event.found) {
    if (context.disk_full && !NeedsNoRoom(finding)) continue;
    std::visit(Dispatch{draft, context}, finding);
  }
  if (!context.disk_full) return {};
  return Refuse(absl::ResourceExhaustedError("no room left to store what the loops found"));
}

}  // namespace muster::controller
