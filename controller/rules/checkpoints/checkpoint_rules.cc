// Checkpoints: their rows come with the ranks' reports and go by the retention policy.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/model/ledger_rules.h"
#include "controller/model/restart_budget.h"
#include "controller/policy/checkpoints/retention_rules.h"
#include "controller/policy/health/restart_rules.h"
#include "controller/rules/jobs/job_driver.h"
#include "controller/rules/jobs/progress_rules.h"
#include "controller/rules/rules.h"
#include "controller/rules/workers/report_gate.h"
#include "controller/rules/workers/worker_quarantine_rules.h"

namespace muster::controller {
namespace {

// The gang that the report names, if it lives and has a rank on that agent; null: stale.
const Job* FindReporter(const Snapshot& snapshot, const CheckpointReport& report) {
  const Job* job = snapshot.FindJob(report.fence.job_id);
  if (job == nullptr || !job->has_live_attempt()) return nullptr;
  const uint32_t ranks = job->current->ranks.size();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (FindLiveRank(snapshot, report.fence, rank, report.worker, report.incarnation) != nullptr) {
      return job;
    }
  }
  return nullptr;
}

// Rows of checkpoints that an attempt began and has not committed: it is at them, never ended them,
// or failed. More are not recorded, however often a program tries: a commit makes its own row
// anyway.
constexpr int kMaxUncommitted = 16;

bool MayBegin(const Snapshot& snapshot, const Job& job) {
  int uncommitted = 0;
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint* row = snapshot.FindCheckpoint(*id);
    if (row->attempt != job.attempt) break;  // older ones
    if (row->path.empty() && ++uncommitted == kMaxUncommitted) return false;
  }
  return true;
}

// A folder right in the job's own: what is there is reread, offered to ranks, and deleted one day.
bool IsInJobFolder(const Job& job, const std::string& path) {
  const std::string folder = job.checkpoint_folder() + "/";
  if (path.size() <= folder.size() || path.compare(0, folder.size(), folder) != 0) return false;
  const std::string name = path.substr(folder.size());
  return name.find('/') == std::string::npos && name != "." && name != "..";
}

// The row that a BEGIN of this attempt at this step made, or 0.
uint64_t FindWriting(const Snapshot& snapshot, const Job& job, int64_t step) {
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint* row = snapshot.FindCheckpoint(*id);
    if (row->attempt != job.attempt) break;  // older ones
    if (row->state == CheckpointState::kWriting && row->step == step) return *id;
  }
  return 0;
}

const Checkpoint* FindByPath(const Snapshot& snapshot, const Job& job, const std::string& path) {
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint* row = snapshot.FindCheckpoint(*id);
    if (!path.empty() && row->path == path) return row;
  }
  return nullptr;
}

// The row is as of now.
void NoteTime(Checkpoint& row, const Draft& draft, const RuleContext& context) {
  row.created = context.now;
  row.created_at = WholeNanoseconds(LedgerNow(draft, context));
}

uint64_t BeginRow(Draft& draft, const Job& job, const CheckpointReport& report,
                  const RuleContext& context) {
  Checkpoint row;
  row.job_id = job.id;
  row.step = report.step;
  row.attempt = job.attempt;
  row.epoch = report.epoch;
  NoteTime(row, draft, context);
  return draft.AddCheckpoint(std::move(row)).id;
}

// A command whose spec says nothing of checkpoints runs anywhere, until it has saved one: from then
// on it needs workers that see where that lies.
void RequireRoot(Draft& draft, uint64_t job_id) {
  const JobSettings& before = *draft.view().FindJob(job_id)->settings;
  if (!before.needs.root.empty()) return;
  auto settings = std::make_shared<JobSettings>(before);
  settings->needs.root = settings->checkpoint_root;
  draft.EditJob(job_id).settings = std::move(settings);
}

// The attempt goes on from this step, and has done none yet.
void SetFirstStep(Draft& draft, uint64_t job_id, int64_t step) {
  Attempt& attempt = draft.EditAttempt(job_id);
  attempt.first_step = attempt.last_step = step;
  draft.EditJob(job_id).ledger.step = step;
}

absl::Status Commit(Draft& draft, const Job& job, const CheckpointReport& report,
                    const RuleContext& context) {
  if (report.path.empty() || report.manifest_sha256.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.id, ": a committed checkpoint without path or manifest hash"));
  }
  if (!IsInJobFolder(job, report.path)) {
    return absl::InvalidArgumentError(absl::StrCat("job ", job.id, ": checkpoint ", report.path,
                                                   " is not in ", job.checkpoint_folder()));
  }
  if (const Checkpoint* same = FindByPath(draft.view(), job, report.path)) {
    if (same->manifest_sha256 == report.manifest_sha256) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("job ", job.id, ": checkpoint ", same->id, " is ",
                                                 report.path, " already, with another manifest"));
  }
  const bool gets_further = report.step > FurthestCommit(draft.view(), job);
  uint64_t id = FindWriting(draft.view(), job, report.step);
  if (id == 0) id = BeginRow(draft, job, report, context);
  Checkpoint& row = draft.EditCheckpoint(id);
  row.state = CheckpointState::kCommitted;
  row.path = report.path;
  row.bytes = report.bytes;
  row.manifest_sha256 = report.manifest_sha256;
  row.best = report.best;
  row.epoch = report.epoch;
  row.metrics = report.metrics;
  NoteTime(row, draft, context);
  ++draft.counters().checkpoints_committed;
  RequireRoot(draft, row.job_id);
  // A gang that starts has found what a writer left whole, but could not register any more.
  const Job& saved = *draft.view().FindJob(row.job_id);
  const bool starts = saved.has_live_attempt() && !saved.current->reached_running &&
                      (saved.current->ranks.front().state == RankState::kAssigned ||
                       saved.current->ranks.front().state == RankState::kStarted);
  if (starts && report.step > saved.current->first_step) SetFirstStep(draft, saved.id, report.step);
  // The same step again is no progress, however often it is saved.
  if (!gets_further) return absl::OkStatus();
  RefillBudgets(draft.EditJob(row.job_id));
  EvaluateAfterProgress(draft, row.job_id, context);
  return absl::OkStatus();
}

// A reading of a checkpoint that speaks against it: its bytes do not match, or it is not there
// (`missing`).
struct BadReading {
  std::string worker;
  std::string message;
  bool missing = false;
  bool by_rank = false;  // which can be mistaken in where it looks: an agent rereads it
};

// A bad reading of one machine marks no checkpoint as corrupt, or as gone, where another one can be
// asked: until then it is in doubt (policy/checkpoints/retention_rules has it reread). What is
// missing may appear a little later on a network file system. A worker that is awaited comes, or is
// lost within the time of a lease. True: it is marked.
bool MarkBadIfConfirmed(Draft& draft, const Checkpoint& found, const BadReading& reading,
                        const RuleContext& context) {
  const Job& job = *draft.view().FindJob(found.job_id);
  const bool awaited = AnotherIsAwaited(draft.view(), job, reading.worker);
  const bool others = awaited || PickVerifier(draft.view(), job, reading.worker) != nullptr;
  // One that finds other bytes and one that finds nothing do not confirm each other.
  const bool alike = found.doubt.has_value() && found.doubt->missing == reading.missing;
  const bool by_another = alike && found.doubt->worker != reading.worker;
  const bool again = alike && !others;
  const bool alone = !others && !reading.missing;
  const bool settled = !found.restorable();
  Checkpoint& row = draft.EditCheckpoint(found.id);
  if (!settled && (reading.by_rank || (!by_another && !again && !alone))) {
    row.doubt = {.worker = reading.worker, .message = reading.message, .missing = reading.missing};
    const bool later = reading.missing || awaited;
    row.retry_at = later ? context.now_at + kCheckpointRetry : context.now_at;
    return false;
  }
  row.doubt.reset();
  row.message = reading.message;
  if (reading.missing) {
    row.state = CheckpointState::kDeleted;
    return true;
  }
  row.state = CheckpointState::kCorrupt;
  ++draft.counters().checkpoints_corrupt;
  return true;
}

// A candidate proved broken: when the gang was loading that one, it resumes from the next whole
// one, in their order. A rank also reports a broken best checkpoint, after it has loaded another
// one.
void ResumeFromNext(Draft& draft, uint64_t job_id, uint64_t broken) {
  const bool was_loading = draft.view().FindCheckpoint(broken)->step ==
                           draft.view().FindJob(job_id)->current->first_step;
  if (!was_loading) return;
  const std::vector<uint64_t>& resume = draft.view().FindJob(job_id)->current->resume;
  auto next = std::find(resume.begin(), resume.end(), broken);
  if (next == resume.end()) next = resume.begin();
  next = std::find_if(next, resume.end(), [&](uint64_t id) {
    return id != broken && draft.view().FindCheckpoint(id)->restorable();
  });
  const int64_t step = next == resume.end() ? 0 : draft.view().FindCheckpoint(*next)->step;
  SetFirstStep(draft, job_id, step);
}

void AssignWork(Draft& draft, const AssignCheckpointWork::Action& action, const Worker& worker) {
  OutboxRow row;
  row.worker = worker.name;
  row.incarnation = worker.incarnation;
  row.kind = action.kind;
  row.reason = action.reason;
  row.checkpoint_id = action.checkpoint_id;
  draft.AddOutbox(std::move(row));
}

bool HasWork(const Snapshot& snapshot, uint64_t checkpoint_id) {
  return snapshot.outbox.AnyOf(
      [checkpoint_id](const OutboxRow& row) { return row.checkpoint_id == checkpoint_id; });
}

// The candidate of another job that the attempt may be loading from there; null: none.
const Checkpoint* FindOthers(const Snapshot& snapshot, const Job& job, const std::string& path) {
  for (uint64_t id : job.current->resume) {
    const Checkpoint* row = snapshot.FindCheckpoint(id);
    if (row->job_id != job.id && row->path == path) return row;
  }
  return nullptr;
}

// A job could not load the checkpoint, which does not show that it is bad, or a job other than its
// own found it broken, perhaps on a worker that does not see its folder: a worker of its own job's
// pools rereads it, another than `not_by` where there is one. Only that one's reading counts.
void RequestReread(Draft& draft, const Checkpoint& row, const Job& reporter,
                   const std::string& not_by) {
  if (!row.restorable() || HasWork(draft.view(), row.id)) return;
  const Job& owner = *draft.view().FindJob(row.job_id);
  const Worker* worker = PickVerifier(draft.view(), owner, not_by);
  if (worker == nullptr) worker = PickVerifier(draft.view(), owner);
  if (worker == nullptr) return;
  AssignWork(draft,
             {.kind = AssignmentKind::kVerify,
              .checkpoint_id = row.id,
              .worker = worker->name,
              .reason = absl::StrCat("job ", reporter.id, " could not load it")},
             *worker);
}

absl::Status Apply(Draft& draft, const Job& job, const CheckpointReport& report,
                   const RuleContext& context) {
  switch (report.kind) {
    case CheckpointReport::Kind::kBegin:
      if (FindWriting(draft.view(), job, report.step) == 0 && MayBegin(draft.view(), job)) {
        BeginRow(draft, job, report, context);
      }
      return absl::OkStatus();
    case CheckpointReport::Kind::kCommit:
      return Commit(draft, job, report, context);
    case CheckpointReport::Kind::kFailed:
      if (const uint64_t id = FindWriting(draft.view(), job, report.step); id != 0) {
        Checkpoint& row = draft.EditCheckpoint(id);
        row.state = CheckpointState::kDeleted;
        row.message = absl::StrCat("saving failed: ", report.message);
      }
      return absl::OkStatus();
    case CheckpointReport::Kind::kCorrupt:
      if (const Checkpoint* row = FindByPath(draft.view(), job, report.path);
          row != nullptr && row->restorable()) {
        MarkBadIfConfirmed(draft, *row,
                           {.worker = report.worker,
                            .message = absl::StrCat("found broken while loading: ", report.message),
                            .by_rank = true},
                           context);
        ResumeFromNext(draft, job.id, row->id);
      } else if (const Checkpoint* other = FindOthers(draft.view(), job, report.path)) {
        RequestReread(draft, *other, job, report.worker);
        ResumeFromNext(draft, job.id, other->id);
      }
      return absl::OkStatus();
    case CheckpointReport::Kind::kUnread: {
      const Checkpoint* row = FindByPath(draft.view(), job, report.path);
      if (row == nullptr) row = FindOthers(draft.view(), job, report.path);
      if (row == nullptr || !row->restorable()) return absl::OkStatus();
      const uint64_t id = row->id;
      RequestReread(draft, *row, job, report.worker);
      ResumeFromNext(draft, job.id, id);
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError("a checkpoint report of an unknown kind");
}

// The repeat of a commit that was refused must not be answered with OK.
EventResult AnswerRepeat(const Draft& draft, const CheckpointReport& report) {
  const Job* job = draft.view().FindJob(report.fence.job_id);
  if (report.kind != CheckpointReport::Kind::kCommit ||
      (job != nullptr && FindByPath(draft.view(), *job, report.path) != nullptr)) {
    return {};
  }
  EventResult result;
  result.fenced = true;
  result.status = absl::FailedPreconditionError(
      absl::StrCat("job ", report.fence.job_id, ": this commit was refused before"));
  return result;
}

// The assignment that the result answers, taken out of the outbox. False: it was given to somebody
// else meanwhile.
bool TakeAssignment(Draft& draft, const std::string& worker, uint64_t outbox_seq,
                    AssignmentKind kind, uint64_t checkpoint_id) {
  const OutboxRow* row = draft.view().outbox.Find(outbox_seq);
  const bool matches = row != nullptr && row->worker == worker && row->kind == kind &&
                       row->checkpoint_id == checkpoint_id;
  if (!matches) return false;
  draft.RemoveOutbox(outbox_seq);
  return true;
}

}  // namespace

EventResult OnCheckpointReport(Draft& draft, const CheckpointReport& event,
                               const RuleContext& context) {
  const absl::StatusOr<Gate> gate =
      PassGate(draft, event.worker, event.incarnation, event.event_seq);
  if (!gate.ok()) return Refuse(gate.status());
  if (*gate == Gate::kDuplicate) return AnswerRepeat(draft, event);
  const Job* job = FindReporter(draft.view(), event);
  if (job == nullptr) {
    return RefuseStale(draft, *draft.view().FindWorker(event.worker), event.fence, /*alive=*/true);
  }
  EventResult result;
  result.status = DriveJob(draft, job->id,
                           {.input = JobInput::kCheckpointReport,
                            .actor = absl::StrCat("worker:", event.worker),
                            .message = ""},
                           context);
  if (result.status.ok()) result.status = Apply(draft, *job, event, context);
  // The report was handled, though it was refused: repeating it would change nothing.
  result.fenced = !result.status.ok();
  return result;
}

EventResult OnRequestVerify(Draft& draft, const RequestVerify& event) {
  const Checkpoint* checkpoint = draft.view().FindCheckpoint(event.checkpoint_id);
  if (checkpoint == nullptr) {
    return Refuse(absl::NotFoundError(
        absl::StrCat("checkpoint ", event.checkpoint_id, ": there is no such checkpoint")));
  }
  const bool present = checkpoint->restorable() || checkpoint->state == CheckpointState::kCorrupt;
  if (!present) {
    return Refuse(absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", event.checkpoint_id, " is ",
                     CheckpointStateName(checkpoint->state), ": there is nothing to verify")));
  }
  if (HasWork(draft.view(), event.checkpoint_id)) return {};
  const Worker* worker = PickVerifier(draft.view(), *draft.view().FindJob(checkpoint->job_id));
  if (worker == nullptr) {
    return Refuse(absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", event.checkpoint_id,
                     ": no worker of its pool is ready to reread it; start one and try again")));
  }
  AssignWork(draft,
             {.kind = AssignmentKind::kVerify,
              .checkpoint_id = event.checkpoint_id,
              .worker = worker->name,
              .reason = "asked for"},
             *worker);
  return {};
}

EventResult OnAssignCheckpointWork(Draft& draft, const AssignCheckpointWork& event) {
  // A submit may have come in between that begins from one of them, even in this very batch.
  std::set<uint64_t> needed_by_others = NeededByOthers(draft.view());
  for (uint64_t id : draft.new_job_ids()) {
    const std::vector<uint64_t>& ids = draft.view().FindJob(id)->settings->resume_from;
    needed_by_others.insert(ids.begin(), ids.end());
  }
  std::set<uint64_t> assigned = CheckpointsWithWork(draft.view());
  for (const AssignCheckpointWork::Action& action : event.actions) {
    const Checkpoint* checkpoint = draft.view().FindCheckpoint(action.checkpoint_id);
    const Worker* worker = draft.view().FindWorker(action.worker);
    if (checkpoint == nullptr || worker == nullptr || !worker->pulse.connected) continue;
    // A gang of its own job may have been placed in between, too.
    const bool needed = needed_by_others.count(action.checkpoint_id) != 0 ||
                        MayBeLoading(*draft.view().FindJob(checkpoint->job_id), checkpoint->id);
    const bool stays = needed || !checkpoint->pinned_by.empty();
    const bool void_now = checkpoint->state == CheckpointState::kDeleted ||
                          (action.kind == AssignmentKind::kDelete && stays);
    if (void_now || !assigned.insert(action.checkpoint_id).second) continue;
    AssignWork(draft, action, *worker);
  }
  return {};
}

EventResult OnVerifyReport(Draft& draft, const VerifyReport& event, const RuleContext& context) {
  const absl::StatusOr<Gate> gate =
      PassGate(draft, event.worker, event.incarnation, event.event_seq);
  if (!gate.ok()) return Refuse(gate.status());
  if (*gate == Gate::kDuplicate) return {};
  if (!TakeAssignment(draft, event.worker, event.outbox_seq, AssignmentKind::kVerify,
                      event.checkpoint_id)) {
    return {};
  }
  const Checkpoint& found = *draft.view().FindCheckpoint(event.checkpoint_id);
  const bool present = found.restorable() || found.state == CheckpointState::kCorrupt;
  if (!present) return {};
  const BadReading bad{.worker = event.worker, .message = event.message, .missing = event.missing};
  if (!event.ok && !MarkBadIfConfirmed(draft, found, bad, context)) return {};
  Checkpoint& row = draft.EditCheckpoint(event.checkpoint_id);
  ++row.rereads;
  row.verified = context.now;
  if (!event.ok) return {};
  row.state = CheckpointState::kVerified;
  row.failed_by.clear();
  row.doubt.reset();
  row.message.clear();
  return {};
}

EventResult OnDeleteReport(Draft& draft, const DeleteReport& event, const RuleContext& context) {
  const absl::StatusOr<Gate> gate =
      PassGate(draft, event.worker, event.incarnation, event.event_seq);
  if (!gate.ok()) return Refuse(gate.status());
  if (*gate == Gate::kDuplicate) return {};
  std::string reason = "by the retention policy";
  if (const OutboxRow* order = draft.view().outbox.Find(event.outbox_seq)) reason = order->reason;
  if (!TakeAssignment(draft, event.worker, event.outbox_seq, AssignmentKind::kDelete,
                      event.checkpoint_id)) {
    return {};
  }
  Checkpoint& row = draft.EditCheckpoint(event.checkpoint_id);
  if (event.ok) {
    row.state = CheckpointState::kDeleted;
    row.message = reason;
  } else {
    row.message =
        absl::StrCat("could not be deleted by worker ", event.worker, ": ", event.message);
    row.failed_by = event.worker;
    row.retry_at = context.now_at + kCheckpointRetry;
  }
  return {};
}

}  // namespace muster::controller
