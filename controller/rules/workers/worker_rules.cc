// How workers come, stay and go.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/units.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/health/liveness_rules.h"
#include "controller/rules/jobs/job_driver.h"
#include "controller/rules/jobs/progress_rules.h"
#include "controller/rules/rules.h"
#include "controller/rules/workers/report_gate.h"
#include "controller/rules/workers/restore_rules.h"
#include "controller/rules/workers/worker_name_rules.h"
#include "controller/rules/workers/worker_quarantine_rules.h"

namespace muster::controller {
namespace {

// Jobs whose live attempt has a rank on this agent that has not ended.
std::set<uint64_t> JobsOn(const Snapshot& snapshot, const Worker& worker) {
  std::set<uint64_t> jobs;
  // A rank that has not ended holds its slots.
  for (const auto& [slot, holder] : worker.pulse.holders) {
    const Job* job = snapshot.FindJob(holder.job_id);
    if (job == nullptr || !job->has_live_attempt() || job->current->number != holder.attempt) {
      continue;
    }
    const Rank& rank = job->current->ranks[holder.rank];
    if (!HasEnded(rank.state) && rank.worker == worker.name) jobs.insert(job->id);
  }
  return jobs;
}

// Frees what the worker's ranks, all of them given up and known to be gone, still hold.
void ReleaseHeld(Draft& draft, uint64_t id) {
  const std::map<uint32_t, SlotHolder> holders = draft.view().workers.Find(id)->pulse.holders;
  for (const auto& [slot, holder] : holders) {
    ReleaseSlot(draft, holder.job_id, holder.attempt, holder.rank);
  }
}

// The worker's ranks are gone, or out of reach: their gangs end. `dead`: the processes are known to
// be dead.
void LoseRanks(Draft& draft, uint64_t worker_id, bool dead, const std::string& cause,
               const RuleContext& context) {
  const Worker worker = *draft.view().workers.Find(worker_id);
  const std::set<uint64_t> jobs = JobsOn(draft.view(), worker);
  // What the outbox still holds for it is void: the gangs are fenced, other workers reread
  // the checkpoints.
  for (uint64_t seq : draft.view().outbox.Of(worker.name)) draft.RemoveOutbox(seq);
  for (uint64_t job_id : jobs) {
    const size_t ranks = draft.view().FindJob(job_id)->current->ranks.size();
    for (uint32_t i = 0; i < ranks; ++i) {
      const Rank& rank = draft.view().FindJob(job_id)->current->ranks[i];
      if (HasEnded(rank.state) || rank.worker != worker.name) continue;
      draft.EditRank(job_id, i).state = dead ? RankState::kExited : RankState::kLost;
    }
    // The others have waited for the lost ones since the last step.
    if (!dead) NoteStandstill(draft.EditJob(job_id));
    if (NoteFailure(draft, job_id, {.failure_class = FailureClass::kWorkerLost, .cause = cause})) {
      RecordWorkerFailure(draft, worker.name, job_id, context);
    }
    const absl::Status driven =
        DriveJob(draft, job_id,
                 {.input = JobInput::kWorkerGone, .actor = "liveness", .message = cause}, context);
    if (driven.ok()) EndAttemptIfRanksGone(draft, job_id, context);
  }
  if (dead) ReleaseHeld(draft, worker_id);
}

// The gangs with ranks on the worker save and leave, each asked once. That is why their attempts
// end, whatever becomes of their ranks from here on.
void DrainGangs(Draft& draft, uint64_t worker_id, const JobStep& step, const RuleContext& context) {
  for (uint64_t job_id : JobsOn(draft.view(), *draft.view().workers.Find(worker_id))) {
    const Job& job = *draft.view().FindJob(job_id);
    // A gang whose state refuses this step is being ended anyway.
    const bool takes_it = LookUp(job.state, step.input).handling != Handling::kReject;
    if (job.current->save_requested || !takes_it) continue;
    if (job.state == JobState::kStarting || job.state == JobState::kRunning) {
      NoteFailure(draft, job_id,
                  {.failure_class = FailureClass::kPreempted, .cause = step.message});
    }
    const absl::Status driven = DriveJob(draft, job_id, step, context);
    MUSTER_CHECK(driven.ok(), "a gang refused the drain that its state allows");
  }
}

// Whether more was acknowledged to the agent than the row knows, as after the worker was forgotten:
// the agent does not repeat that.
bool IsAheadOf(const Worker& worker, const WorkerHello& event) {
  return event.acknowledged_event_seq.has_value() &&
         (!worker.event_seq_known || *event.acknowledged_event_seq > worker.event_seq);
}

void TakeAcknowledged(Worker& worker, const WorkerHello& event) {
  if (!IsAheadOf(worker, event)) return;
  worker.event_seq = *event.acknowledged_event_seq;
  worker.event_seq_known = true;
}

// Whether the agent has worked for a newer state than this one, which was set back to a backup: it
// has an assignment of an earlier controller that this state does not know, or a report of it was
// acknowledged that this state does not know. What this one gives next has numbers that the agent
// takes for assignments that it has done. Terms do not show this: those after the backup are given
// twice.
bool HasSeenNewerState(const Snapshot& snapshot, const Worker* known, const WorkerHello& event) {
  const bool served_another = event.last_started.value_or(snapshot.started) != snapshot.started;
  if (served_another && event.last_assignment_seq > snapshot.last_outbox_before_term) return true;
  return known != nullptr && known->incarnation == event.incarnation && known->event_seq_known &&
         IsAheadOf(*known, event);
}

Worker NewWorker(const WorkerHello& event) {
  Worker worker;
  worker.name = event.worker;
  worker.incarnation = event.incarnation;
  worker.identity = event.identity;
  worker.facts = event.facts;
  TakeAcknowledged(worker, event);
  return worker;
}

// The former agent is dead, or its lease is over and what it may have left behind runs on another
// machine: no slot of this one waits for it.
void BeginIncarnation(Draft& draft, uint64_t id, const WorkerHello& event,
                      const RuleContext& context) {
  LoseRanks(draft, id, /*dead=*/true,
            absl::StrCat("worker ", event.worker, ": its agent started anew"), context);
  Worker& worker = draft.EditWorker(id);
  worker.past_incarnations.insert(worker.past_incarnations.begin(), worker.incarnation);
  if (worker.past_incarnations.size() > kMaxPastIncarnations) {
    worker.past_incarnations.resize(kMaxPastIncarnations);
  }
  worker.incarnation = event.incarnation;
  worker.identity = event.identity;
  worker.pulse.ranks = nullptr;
  worker.draining = false;
  worker.pulse.leaving = false;
  worker.event_seq = 0;
  worker.event_seq_known = false;
  TakeAcknowledged(worker, event);
}

// While an agent is away its ranks cannot report progress: that time does not count against them.
// The time before does, or a connection that breaks often would hide a hang.
void LeaveOutTimeAway(WorkerPulse& pulse, absl::Duration now) {
  if (pulse.ranks == nullptr) return;
  auto ranks = std::make_shared<std::vector<RankStatus>>(*pulse.ranks);
  for (RankStatus& status : *ranks) status.progress_at += now - pulse.last_seen_at;
  pulse.ranks = std::move(ranks);
}

std::vector<StaleRank> StaleOnes(const Snapshot& snapshot, const WorkerHello& event) {
  std::vector<StaleRank> stale;
  for (const RankStatus& status : event.ranks) {
    if (FindLiveRank(snapshot, status.fence, status.rank, event.worker, event.incarnation) !=
        nullptr) {
      continue;
    }
    stale.push_back(
        {.job_id = status.fence.job_id, .attempt = status.fence.attempt, .rank = status.rank});
  }
  return stale;
}

// Slots of ranks that were given up and that the agent, which has `alive`, does not have: the
// process ended, or never came to be. On a full disk that is put off to a later heartbeat.
void ReleaseForgotten(Draft& draft, uint64_t id, const std::vector<RankStatus>& alive,
                      const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(id);
  const std::map<uint32_t, SlotHolder> holders = worker.pulse.holders;
  if (worker.pulse.owes_release != context.disk_full) {
    draft.EditPulse(id).owes_release = context.disk_full;
  }
  if (context.disk_full) return;
  for (const auto& [slot, holder] : holders) {
    const bool is_alive = std::any_of(alive.begin(), alive.end(), [&](const RankStatus& status) {
      return status.fence.job_id == holder.job_id && status.fence.attempt == holder.attempt &&
             status.rank == holder.rank;
    });
    const Fence fence{.job_id = holder.job_id, .attempt = holder.attempt};
    const bool expected =
        FindLiveRank(draft.view(), fence, holder.rank, worker.name, worker.incarnation) != nullptr;
    if (!is_alive && !expected) ReleaseSlot(draft, holder.job_id, holder.attempt, holder.rank);
  }
}

}  // namespace

EventResult OnHello(Draft& draft, const WorkerHello& event, const RuleContext& context) {
  // An agent that does not say whose term it has seen may mean this controller's.
  const bool has_seen_this =
      event.last_controller.empty() || event.last_controller == draft.view().controller_id;
  if (has_seen_this && event.last_term > draft.view().term) {
    return Refuse(absl::FailedPreconditionError(absl::StrCat(
        "worker ", event.worker, " has seen term ", event.last_term, ", this controller is at ",
        draft.view().term,
        ": its data folder is older than the one that worker knew. Start musterd on the newest one;"
        " if it is meant to begin anew, remove identity.json in the worker's --data-dir and start"
        " the worker again")));
  }
  const Worker* known = draft.view().FindWorker(event.worker);
  if (known != nullptr && known->incarnation != event.incarnation) {
    const absl::Status may_take = MayTakeName(*known, event);
    if (!may_take.ok()) return Refuse(may_take);
  }
  const bool is_of_before =
      context.restored != nullptr && IsOfBeforeTheRestore(draft.view(), *context.restored, event);
  if (is_of_before && !context.restored->accepted) {
    const std::vector<std::string> unknown =
        UnknownToBackup(draft.view(), *context.restored, event);
    if (!unknown.empty()) {
      return Refuse(absl::AbortedError(
          absl::StrCat(kHeldHello, "worker ", event.worker, ": ", absl::StrJoin(unknown, "; "))));
    }
  }
  // Final for the agent (worker/agent/connection/session.cc): its next life has no such memory.
  if (has_seen_this && !is_of_before && HasSeenNewerState(draft.view(), known, event)) {
    return Refuse(absl::AlreadyExistsError(
        absl::StrCat("worker ", event.worker,
                     " has worked for a newer state of this controller, whose data"
                     " folder was set back since: start the agent again")));
  }
  if (known == nullptr && draft.view().workers.size() >= kMaxWorkers) {
    return Refuse(absl::ResourceExhaustedError(absl::StrCat(
        "worker ", event.worker, ": ", kMaxWorkers, " names of workers are known already: have ",
        "lost ones forgotten (`muster nodes forget`, musterd --forget-lost-after)")));
  }
  const uint64_t id = known != nullptr ? known->id : draft.AddWorker(NewWorker(event)).id;
  if (known != nullptr && known->incarnation != event.incarnation) {
    BeginIncarnation(draft, id, event, context);
  }
  known = draft.view().workers.Find(id);
  // An agent that takes no work says so in its Hello already, since its notice comes a little later
  // and nothing may be placed there in between. A Hello that no longer says so does not end the
  // draining: the agent withdraws its notice by another notice, which cannot overtake the first.
  const bool draining = known->draining || event.takes_no_work;
  const bool changed = known->facts != event.facts || known->lost || known->draining != draining ||
                       IsAheadOf(*known, event);
  if (changed) {
    Worker& worker = draft.EditWorker(id);
    worker.facts = event.facts;
    TakeAcknowledged(worker, event);
    worker.draining = draining;
    worker.lost = false;
  }
  WorkerPulse& pulse = draft.EditPulse(id);
  pulse.suspect = false;
  pulse.connected = true;
  pulse.stream = event.stream;
  pulse.last_heartbeat = context.now;
  LeaveOutTimeAway(pulse, context.now_at);
  pulse.last_seen_at = context.now_at;
  pulse.use = nullptr;
  pulse.roots = nullptr;
  pulse.watches = nullptr;
  pulse.checks_data = event.checks_data;
  pulse.data = nullptr;
  draft.WakeLoops();
  if (!context.disk_full) EndQuarantineIfDue(draft, id, context);
  ReleaseForgotten(draft, id, event.ranks, context);
  if (is_of_before) EndRanksThatAreGone(draft, id, event, context);
  EventResult result;
  result.stale = StaleOnes(draft.view(), event);
  TakeRankStatuses(draft, id, event.ranks, context.now_at);
  return result;
}

EventResult OnDisconnected(Draft& draft, const WorkerDisconnected& event) {
  const absl::StatusOr<const Worker*> sender =
      FindSender(draft.view(), event.worker, event.incarnation);
  if (!sender.ok() || !(*sender)->pulse.connected || (*sender)->pulse.stream != event.stream)
    return {};
  draft.EditPulse((*sender)->id).connected = false;
  draft.WakeLoops();
  return {};
}

EventResult OnHeartbeat(Draft& draft, const WorkerHeartbeat& event, const RuleContext& context) {
  const absl::StatusOr<const Worker*> sender =
      FindSender(draft.view(), event.worker, event.incarnation);
  if (!sender.ok()) return Refuse(sender.status());
  if ((*sender)->lost || !(*sender)->pulse.connected) {
    return Refuse(absl::UnavailableError(
        absl::StrCat("worker ", event.worker, " was taken for lost: connect again")));
  }
  const uint64_t id = (*sender)->id;
  WorkerPulse& pulse = draft.EditPulse(id);
  if (std::exchange(pulse.suspect, false)) draft.WakeLoops();
  const absl::Time last_word = std::exchange(pulse.last_heartbeat, context.now);
  pulse.last_seen_at = context.now_at;
  if (event.use != nullptr) pulse.use = event.use;
  if (event.roots != nullptr) TakeRootViews(draft, id, *event.roots);
  TakeDataVerdicts(draft, id, event.data, context);
  // What needs storage is done with a later heartbeat.
  if (!context.disk_full) {
    EndQuarantineIfDue(draft, id, context);
    ReevaluateIfExempt(draft, id, last_word, context);
    if (pulse.owes_release) ReleaseForgotten(draft, id, event.ranks, context);
  }
  TakeRankStatuses(draft, id, event.ranks, context.now_at);
  if (context.disk_full) return {};
  for (const RankStatus& status : event.ranks) {
    if (IsFencedOff(draft.view(), *draft.view().workers.Find(id), status)) {
      RefuseStale(draft, *draft.view().workers.Find(id), status.fence, /*alive=*/true);
    }
  }
  return {};
}

EventResult OnSilent(Draft& draft, const WorkerSilent& event, const RuleContext& context) {
  const absl::StatusOr<const Worker*> found =
      FindSender(draft.view(), event.worker, event.incarnation);
  // It has sent something since the loop found it silent.
  if (!found.ok() || (*found)->pulse.last_seen_at != event.last_seen_at) return {};
  const uint64_t id = (*found)->id;
  if (event.presence == Presence::kSuspect) {
    if ((*found)->presence() != Presence::kReady) return {};
    draft.EditPulse(id).suspect = true;
    draft.WakeLoops();
    return {};
  }
  if ((*found)->lost) return {};
  const std::string cause = absl::StrCat("worker ", event.worker, " has been silent for ",
                                         HumanDuration(context.now_at - event.last_seen_at));
  Worker& worker = draft.EditWorker(id);
  worker.lost = true;
  worker.pulse.connected = false;
  worker.pulse.ranks = nullptr;
  ++draft.counters().workers_lost;
  draft.after_commit().closed_links.push_back(
      {.worker = event.worker,
       .incarnation = event.incarnation,
       .status = absl::UnavailableError(absl::StrCat(cause, ": taken for lost"))});
  LoseRanks(draft, id, /*dead=*/false, cause, context);
  return {};
}

EventResult OnNotice(Draft& draft, const WorkerNotice& event, const RuleContext& context) {
  if (event.event_seq == 0) {
    // An older agent does not number its notice, nor repeat it.
    const absl::StatusOr<const Worker*> sender =
        FindSender(draft.view(), event.worker, event.incarnation);
    if (!sender.ok()) return Refuse(sender.status());
  } else {
    const absl::StatusOr<Gate> gate =
        PassGate(draft, event.worker, event.incarnation, event.event_seq);
    if (!gate.ok()) return Refuse(gate.status());
    if (*gate == Gate::kDuplicate) return {};
  }
  const uint64_t id = draft.view().FindWorker(event.worker)->id;
  Worker& worker = draft.EditWorker(id);
  worker.draining = !event.withdrawn;
  worker.pulse.leaving = !event.withdrawn && event.grace > absl::ZeroDuration();
  if (event.withdrawn) return {};
  const std::string message =
      absl::StrCat("worker ", event.worker, " will go away: ", event.message);
  JobStep step{.input = JobInput::kDrain,
               .actor = absl::StrCat("worker:", event.worker),
               .message = message};
  if (event.grace > absl::ZeroDuration()) step.grace = event.grace;
  DrainGangs(draft, id, step, context);
  return {};
}

EventResult OnCordon(Draft& draft, const CordonWorker& event, const RuleContext& context) {
  const Worker* worker = draft.view().FindWorker(event.worker);
  if (worker == nullptr) {
    return Refuse(absl::NotFoundError(absl::StrCat(
        "worker ", event.worker, ": there is no such worker; `muster nodes` lists them")));
  }
  const uint64_t id = worker->id;
  if (worker->cordoned != event.cordoned || worker->cordon_reason != event.reason) {
    Worker& edited = draft.EditWorker(id);
    edited.cordoned = event.cordoned;
    edited.cordon_reason = event.reason;
  }
  if (!event.cordoned) {
    EndQuarantine(draft, id, context);
    return {};
  }
  if (event.let_finish) return {};
  const std::string why = event.reason.empty() ? "" : absl::StrCat(": ", event.reason);
  const JobStep step{
      .input = JobInput::kDrain,
      .actor = event.actor,
      .message = absl::StrCat("worker ", event.worker, " is drained by ", event.actor, why)};
  DrainGangs(draft, id, step, context);
  return {};
}

EventResult OnForgetWorker(Draft& draft, const ForgetWorker& event) {
  const Worker* worker = draft.view().FindWorker(event.worker);
  if (worker == nullptr) {
    return Refuse(absl::NotFoundError(absl::StrCat(
        "worker ", event.worker, ": there is no such worker; `muster nodes` lists them")));
  }
  if (!worker->lost) {
    return Refuse(absl::FailedPreconditionError(
        absl::StrCat("worker ", event.worker, " is ", WorkerStateName(*worker),
                     ": stop its agent, and try again once it is lost")));
  }
  if (!worker->pulse.holders.empty() && !event.gone) {
    return Refuse(absl::FailedPreconditionError(absl::StrCat(
        "worker ", event.worker, " was lost with ranks on ", worker->pulse.holders.size(),
        " of its slots, and nobody knows that they are dead: start its agent again, or say --gone "
        "if its machine is off for good")));
  }
  const uint64_t id = worker->id;
  ReleaseHeld(draft, id);
  draft.ForgetWorker(id);
  return {};
}

EventResult OnExpired(Draft& draft, const WorkerExpired& event) {
  const Worker* worker = draft.view().FindWorker(event.worker);
  const bool stands = worker != nullptr && worker->pulse.last_seen_at == event.last_seen_at &&
                      MayForget(*worker, event.gone);
  if (!stands) return {};
  const uint64_t id = worker->id;
  ReleaseHeld(draft, id);
  draft.ForgetWorker(id);
  return {};
}

EventResult OnAssignmentAck(Draft& draft, const AssignmentAcked& event,
                            const RuleContext& context) {
  const absl::StatusOr<const Worker*> sender =
      FindSender(draft.view(), event.worker, event.incarnation);
  if (!sender.ok()) return Refuse(sender.status());
  const OutboxRow* found = draft.view().outbox.Find(event.outbox_seq);
  if (found == nullptr || found->worker != event.worker) return {};
  const OutboxRow row = *found;
  const bool refused = !event.refusal.empty();
  // Work on a checkpoint is done when its result is here, unless it will never come.
  if (row.checkpoint_id != 0) {
    if (!refused) return {};
    draft.RemoveOutbox(row.seq);
    const bool reads = row.kind == AssignmentKind::kVerify;
    Checkpoint& checkpoint = draft.EditCheckpoint(row.checkpoint_id);
    checkpoint.message = absl::StrCat("worker ", event.worker, " could not ",
                                      reads ? "reread" : "delete", " it: ", event.refusal);
    checkpoint.failed_by = event.worker;
    checkpoint.retry_at = context.now_at + kCheckpointRetry;
    return {};
  }
  draft.RemoveOutbox(row.seq);
  if (!refused || row.kind != AssignmentKind::kStart) return {};
  const Job* job = draft.view().FindJob(row.fence.job_id);
  if (!job->has_live_attempt() || job->current->number != row.fence.attempt) return {};
  const std::string cause =
      absl::StrCat("worker ", event.worker, " refused its ranks: ", event.refusal);
  for (uint32_t i = 0; i < job->current->ranks.size(); ++i) {
    const Rank& rank = draft.view().FindJob(row.fence.job_id)->current->ranks[i];
    if (rank.worker != event.worker || rank.state != RankState::kAssigned) continue;
    draft.EditRank(row.fence.job_id, i).state = RankState::kExited;
    ReleaseSlot(draft, row.fence.job_id, row.fence.attempt, i);
  }
  // A worker that is about to leave takes nothing more: that is no fault of the job.
  const FailureClass failure_class = (*sender)->draining || (*sender)->cordoned
                                         ? FailureClass::kPreempted
                                         : FailureClass::kStartFailed;
  if (NoteFailure(draft, row.fence.job_id, {.failure_class = failure_class, .cause = cause})) {
    RecordWorkerFailure(draft, event.worker, row.fence.job_id, context);
  }
  EventResult result;
  result.status = DriveJob(draft, row.fence.job_id,
                           {.input = JobInput::kPlacementRefused,
                            .actor = absl::StrCat("worker:", event.worker),
                            .message = cause},
                           context);
  EndAttemptIfRanksGone(draft, row.fence.job_id, context);
  return result;
}

}  // namespace muster::controller
