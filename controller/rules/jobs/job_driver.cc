#include "controller/rules/jobs/job_driver.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "controller/model/restart_budget.h"
#include "controller/policy/checkpoints/root_rules.h"
#include "controller/policy/health/restart_rules.h"
#include "controller/policy/placement/preemption.h"
#include "controller/rules/projects/project_rules.h"

namespace muster::controller {
namespace {

// Any number: it only keeps these draws apart from others.
constexpr uint64_t kBackoffSeed = 0x6261636b6f6666;

int Hardness(StopMode mode) {
  switch (mode) {
    case StopMode::kSave:
      return 0;
    case StopMode::kTerm:
      return 1;
    case StopMode::kKill:
      return 2;
  }
  return 2;
}

void OrderStop(Draft& draft, uint64_t job_id, const StopOrder& order) {
  const Attempt& attempt = *draft.view().FindJob(job_id)->current;
  std::set<std::string> workers;
  for (const Rank& rank : attempt.ranks) {
    if (!HasEnded(rank.state)) workers.insert(rank.worker);
  }
  for (const std::string& name : workers) {
    const Worker* worker = draft.view().FindWorker(name);
    MUSTER_CHECK(worker != nullptr, "a rank was placed on an unknown worker");
    OrderStop(draft, *worker, order);
  }
}

// Reports of the attempt are stale from here on.
void EndAttempt(Draft& draft, uint64_t job_id, const RuleContext& context) {
  Attempt& attempt = draft.EditAttempt(job_id);
  attempt.ended = context.now;
  ChargeProject(draft, job_id, context);
  // A rank that died with its worker could not report how far it came.
  attempt.last_step = std::max(attempt.last_step, draft.view().FindJob(job_id)->ledger.step);
  const Fence fence{.job_id = job_id, .attempt = attempt.number, .generation = attempt.generation};
  draft.after_commit().closed.push_back(fence);
  // Every rank has ended, so that nobody needs what the outbox still holds of the attempt.
  std::vector<uint64_t> void_rows;
  draft.view().outbox.ForEach([&](const OutboxRow& row) {
    if (row.fence.job_id == job_id && row.fence.attempt == attempt.number) {
      void_rows.push_back(row.seq);
    }
  });
  for (uint64_t seq : void_rows) draft.RemoveOutbox(seq);
  for (uint64_t id : draft.view().FindJob(job_id)->checkpoints) {
    const Checkpoint* checkpoint = draft.view().FindCheckpoint(id);
    if (checkpoint->state != CheckpointState::kWriting) continue;
    Checkpoint& unfinished = draft.EditCheckpoint(id);
    unfinished.state = CheckpointState::kDeleted;
    unfinished.message = "never finished: its attempt ended";
  }
}

// Whether the failure may come from a checkpoint root that is gone: a rank that reads or writes
// there fails, hangs, or makes the others fail. Not where a command ended with an exit code: it may
// never have used the root.
bool MayComeOfStorage(FailureClass kind, const JobNeeds& needs) {
  switch (kind) {
    case FailureClass::kHang:
    case FailureClass::kCheckpointFailed:
    case FailureClass::kCorruption:
    case FailureClass::kDataError:
    case FailureClass::kStartFailed:
    case FailureClass::kRankKilled:
      return true;
    case FailureClass::kApplication:
      return !needs.commands;
    default:
      return false;
  }
}

// Why a worker of the current attempt does not see the job's checkpoint root; empty: they all do.
std::string WhoLostTheRoot(const Snapshot& snapshot, const Job& job) {
  const JobNeeds& needs = job.settings->needs;
  for (const Rank& rank : job.current->ranks) {
    const Worker* worker = snapshot.FindWorker(rank.worker);
    // One that has not reported yet, as after a restart of the controller, has not lost it.
    if (worker == nullptr || worker->pulse.roots == nullptr || CanUseRoot(*worker, needs)) continue;
    if (worker->pulse.roots->count(needs.root) == 0) continue;
    return absl::StrCat("worker ", worker->name, ": ", WhyUnseenBy(*worker, needs.root));
  }
  return "";
}

// For an attempt whose ranks are asked to save and leave.
void NoteStake(Draft& draft, uint64_t job_id, const RuleContext& context) {
  const int64_t stake =
      SlotSecondsAtStake(draft.view(), *draft.view().FindJob(job_id), LedgerNow(draft, context));
  Attempt& attempt = draft.EditAttempt(job_id);
  attempt.save_requested = true;
  attempt.stake_slot_seconds = stake;
}

// For an attempt whose ranks have left.
void NoteLoss(Draft& draft, uint64_t job_id, const RuleContext& context) {
  const Job& job = *draft.view().FindJob(job_id);
  if (job.current->stake_slot_seconds < 0) return;
  const int64_t lost = SlotSecondsLost(draft.view(), job, LedgerNow(draft, context));
  Attempt& attempt = draft.EditAttempt(job_id);
  attempt.lost_slot_seconds = lost;
  draft.counters().stake_slot_seconds += attempt.stake_slot_seconds;
  draft.counters().lost_slot_seconds += lost;
}

void CarryOut(Draft& draft, uint64_t job_id, JobEffect effect, const JobStep& step,
              const RuleContext& context) {
  const Job& job = *draft.view().FindJob(job_id);
  StopOrder order{.fence = {}, .mode = StopMode::kKill, .grace = {}, .reason = step.message};
  if (job.current != nullptr) {
    order.fence = {.job_id = job_id,
                   .attempt = job.current->number,
                   .generation = job.current->generation,
                   .term = draft.view().term};
  }
  switch (effect) {
    case JobEffect::kNone:
      return;
    case JobEffect::kStopGangKill:
      OrderStop(draft, job_id, order);
      return;
    case JobEffect::kStopGangSave:
      if (job.current->save_requested) return;
      NoteStake(draft, job_id, context);
      order.mode = StopMode::kSave;
      order.grace = step.grace;
      OrderStop(draft, job_id, order);
      return;
    case JobEffect::kStopGangTerm:
      order.mode = StopMode::kTerm;
      order.grace = kCancelGrace;
      OrderStop(draft, job_id, order);
      return;
    case JobEffect::kEndAttempt:
      EndAttempt(draft, job_id, context);
      return;
  }
}

// Sets the job's state and its message, and adds the event.
void Record(Draft& draft, uint64_t job_id, JobState to, Reason reason, const JobStep& step,
            const RuleContext& context) {
  Job& job = draft.EditJob(job_id);
  JobEvent event{.sequence = 0,
                 .job_id = job_id,
                 .time = context.now,
                 .from = job.state,
                 .to = to,
                 .reason = reason,
                 .actor = step.actor,
                 .message = step.message,
                 .attempt = job.attempt};
  job.state = to;
  job.reason = reason;
  job.message = step.message;
  draft.AddEvent(std::move(event));
}

void Move(Draft& draft, uint64_t job_id, const JobRule& rule, const JobStep& step,
          const RuleContext& context) {
  Record(draft, job_id, rule.next, rule.reason, step, context);
  Job& job = draft.EditJob(job_id);
  if (rule.next == JobState::kRunning) {
    draft.EditAttempt(job_id).reached_running = true;
    if (job.started == absl::InfinitePast()) job.started = context.now;
  }
  if (rule.next == JobState::kRecovering) draft.EditAttempt(job_id).reason = rule.reason;
  if (IsTerminal(rule.next)) {
    ++draft.counters().jobs_finished[rule.next];
    job.finished = context.now;
    job.held = false;
    job.suspending = false;
    if (rule.next == JobState::kSucceeded) {
      job.progress.phase = "done";
      job.failure_class = FailureClass::kNone;
      // Asked to make way, it finished first.
      Attempt& attempt = draft.EditAttempt(job_id);
      if (attempt.failure_class == FailureClass::kPreempted) {
        attempt.failure_class = FailureClass::kNone;
        attempt.cause.clear();
      }
    }
  }
}

}  // namespace

absl::Status DriveJob(Draft& draft, uint64_t job_id, const JobStep& step,
                      const RuleContext& context) {
  const Job* job = draft.view().FindJob(job_id);
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat("job ", job_id, ": there is no such job"));
  }
  const JobRule& rule = LookUp(job->state, step.input);
  switch (rule.handling) {
    case Handling::kUnset:
      MUSTER_CHECK(false, "a pair of state and input is missing in the table");
    case Handling::kIgnore:
      return absl::OkStatus();
    case Handling::kReject:
      return absl::Status(rule.code, absl::StrCat("job ", job_id, " is ", JobStateName(job->state),
                                                  ": ", rule.because));
    case Handling::kMove:
      Move(draft, job_id, rule, step, context);
      break;
    case Handling::kNote:
      Record(draft, job_id, job->state, rule.reason, step, context);
      break;
    case Handling::kStay:
      break;
  }
  CarryOut(draft, job_id, rule.effect, step, context);
  return absl::OkStatus();
}

bool NoteFailure(Draft& draft, uint64_t job_id, const AttemptFailure& failure) {
  // An attempt that ends while its job is cancelled ends because of that.
  if (draft.view().FindJob(job_id)->state == JobState::kStopping) return false;
  Attempt& attempt = draft.EditAttempt(job_id);
  AttemptFailure noted = failure;
  const FailureClass kind = noted.failure_class;
  const bool by_loss = kind == FailureClass::kRankKilled || kind == FailureClass::kPeerLost ||
                       kind == FailureClass::kWorkerLost || kind == FailureClass::kHang;
  if (attempt.save_requested && by_loss) noted.failure_class = FailureClass::kPreempted;
  // The gang's store went with the controller that placed it: not the job's fault.
  const bool by_rendezvous = kind == FailureClass::kStartFailed ||
                             kind == FailureClass::kPeerLost || kind == FailureClass::kApplication;
  if (attempt.term != draft.view().term && !attempt.reached_running && by_rendezvous) {
    noted.failure_class = FailureClass::kPreempted;
    noted.cause =
        absl::StrCat("the controller restarted while the gang was meeting; ", noted.cause);
  }
  const Job& job = *draft.view().FindJob(job_id);
  if (MayComeOfStorage(noted.failure_class, job.settings->needs)) {
    const std::string who = WhoLostTheRoot(draft.view(), job);
    if (!who.empty()) {
      noted.failure_class = FailureClass::kStorageUnavailable;
      noted.cause = absl::StrCat(who, "; then ", noted.cause);
    }
  }
  const bool replaces = attempt.failure_class == FailureClass::kNone ||
                        (attempt.failure_class == FailureClass::kPeerLost &&
                         noted.failure_class != FailureClass::kPeerLost &&
                         noted.failure_class != FailureClass::kPreempted);
  if (!replaces) return false;
  attempt.failure_class = noted.failure_class;
  attempt.cause = noted.cause;
  const bool start_failed = noted.failure_class == FailureClass::kStartFailed;
  attempt.missing = start_failed ? noted.missing : Missing::kNothing;
  attempt.failed_rank = noted.rank;
  return true;
}

void EndAttemptIfRanksGone(Draft& draft, uint64_t job_id, const RuleContext& context) {
  const Job* job = draft.view().FindJob(job_id);
  const bool ending = job->state == JobState::kRecovering || job->state == JobState::kStopping;
  if (!ending || !job->has_live_attempt()) return;
  const std::vector<Rank>& ranks = job->current->ranks;
  const bool all_ended = std::all_of(ranks.begin(), ranks.end(),
                                     [](const Rank& rank) { return HasEnded(rank.state); });
  if (!all_ended) return;
  NoteLoss(draft, job_id, context);
  job = draft.view().FindJob(job_id);

  JobStep step{
      .input = JobInput::kClearedForRetry, .actor = "controller", .message = "", .grace = {}};
  if (job->state == JobState::kStopping) {
    step.message = absl::StrCat("cancelled; attempt ", job->attempt, " has ended");
    if (job->current->failure_class == FailureClass::kNone) {
      draft.EditAttempt(job_id).cause = "cancelled";
    }
  } else if (job->suspending) {
    step.input = JobInput::kClearedForSuspend;
    step.message = absl::StrCat("suspended; attempt ", job->attempt, " has ended");
    Job& edited = draft.EditJob(job_id);
    edited.suspending = false;
    edited.failure_class = job->current->failure_class;
  } else {
    // A rank that died with its worker could not report how far it came.
    const int64_t reached = job->ledger.step;
    Attempt& attempt = draft.EditAttempt(job_id);
    attempt.last_step = std::max(attempt.last_step, reached);
    job = draft.view().FindJob(job_id);
    if (GotFurtherUnsaved(draft.view(), *job)) {
      Job& refilled = draft.EditJob(job_id);
      RefillBudgets(refilled);
      job = &refilled;
    }
    const RestartDecision decision =
        DecideRestart(draft.view(), *job, DeriveSeed(kBackoffSeed, job_id, job->attempt));
    step.input = decision.input;
    step.message = decision.message;
    const FailureClass failure_class = job->current->failure_class;
    Job& edited = draft.EditJob(job_id);
    edited.failure_class = failure_class;
    ++draft.counters().attempts_lost[failure_class];
    if (decision.input == JobInput::kClearedForRetry) {
      ++edited.restarts;
      if (decision.charged) {
        ++edited.restarts_in_row;
        ++edited.charged[failure_class];
      }
      edited.not_before_at = context.now_at + decision.wait;
    }
  }
  const absl::Status driven = DriveJob(draft, job_id, step, context);
  MUSTER_CHECK(driven.ok(), "an ended gang could not be cleared");
}

void OrderStop(Draft& draft, const Worker& worker, const StopOrder& order) {
  for (uint64_t seq : draft.view().outbox.Of(worker.name)) {
    const OutboxRow& row = *draft.view().outbox.Find(seq);
    const bool same = row.kind == AssignmentKind::kStop && row.fence.job_id == order.fence.job_id &&
                      row.fence.attempt == order.fence.attempt;
    if (same && Hardness(row.mode) >= Hardness(order.mode)) return;
  }
  OutboxRow row;
  row.worker = worker.name;
  row.incarnation = worker.incarnation;
  row.kind = AssignmentKind::kStop;
  row.fence = order.fence;
  row.mode = order.mode;
  row.grace = order.grace;
  row.reason = order.reason;
  draft.AddOutbox(std::move(row));
}

void ReleaseSlot(Draft& draft, uint64_t job_id, uint32_t attempt, uint32_t rank) {
  const Job* job = draft.view().FindJob(job_id);
  if (job == nullptr) return;
  const bool current = job->current != nullptr && job->current->number == attempt;
  const Attempt* owner = nullptr;
  if (current) {
    owner = job->current.get();
  } else if (attempt >= 1 && attempt <= job->past.size()) {
    owner = job->past[attempt - 1].get();
  }
  if (owner == nullptr || rank >= owner->ranks.size() || !owner->ranks[rank].holds_slots) return;
  const Worker* worker = draft.view().FindWorker(owner->ranks[rank].worker);
  const std::vector<uint32_t> slots = owner->ranks[rank].slots;
  if (current) {
    draft.EditRank(job_id, rank).holds_slots = false;
  } else {
    draft.EditPastRank(job_id, attempt, rank).holds_slots = false;
  }
  if (worker == nullptr) return;
  for (uint32_t slot : slots) {
    const auto holder = worker->pulse.holders.find(slot);
    const bool holds = holder != worker->pulse.holders.end() && holder->second.job_id == job_id &&
                       holder->second.attempt == attempt && holder->second.rank == rank;
    if (!holds) continue;
    draft.EditPulse(worker->id).holders.erase(slot);
    draft.WakeLoops();
  }
}

}  // namespace muster::controller
