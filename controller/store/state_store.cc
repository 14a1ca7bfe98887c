#include "controller/store/state_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/planted_bug.h"
#include "common/base/status_macros.h"
#include "controller/store/forgotten_rows.h"
#include "controller/store/ledger_codec.h"
#include "controller/store/project_rows.h"
#include "controller/store/root_rows.h"
#include "controller/store/row_codec.h"
#include "controller/store/settings_codec.h"
#include "controller/store/state_schema.h"

namespace muster::controller {
namespace {

// The columns that change, in the order of both statements below.
void BindCourse(SqliteStatement& row, const Job& job) {
  row.Bind(EncodeSettings(*job.settings)).Bind(job.held).Bind(job.suspending);
  row.Bind(job.requeue_id).Bind(job.requeued_after);
  row.Bind(static_cast<int>(job.state)).Bind(static_cast<int>(job.reason)).Bind(job.message);
  BindTime(row, job.submitted);
  BindTime(row, job.started);
  BindTime(row, job.finished);
  row.Bind(job.attempt)
      .Bind(job.restarts)
      .Bind(job.restarts_in_row)
      .Bind(static_cast<int>(job.failure_class))
      .Bind(job.progress.phase)
      .Bind(job.progress.step)
      .Bind(job.progress.total_steps)
      .Bind(job.progress.epoch)
      .Bind(job.progress.memory_bytes)
      .Bind(job.progress.memory_peak_bytes)
      .Bind(job.progress.best_validation_accuracy)
      .Bind(EncodeNumbers(job.progress.latest))
      .Bind(EncodeNumbers(job.results))
      .Bind(EncodeCharged(job.charged))
      .Bind(EncodeLedger(job.ledger));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateStore>> StateStore::Open(const SqliteOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                          SqliteDatabase::Open(options, StateMigrations()));
  return std::unique_ptr<StateStore>(new StateStore(std::move(database)));
}

absl::StatusOr<uint64_t> StateStore::StartTerm() {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  absl::Status status = database_
                            ->Prepare(
                                "INSERT INTO meta (key, value) VALUES ('term', 1)"
                                " ON CONFLICT (key) DO UPDATE SET value = value + 1")
                            .Run();
  if (!status.ok()) {
    database_->Rollback();
    return status;
  }
  MUSTER_RETURN_IF_ERROR(database_->Commit());
  SqliteStatement term = database_->Prepare("SELECT value FROM meta WHERE key = 'term'");
  MUSTER_RETURN_IF_ERROR(term.Step().status());
  return static_cast<uint64_t>(term.Int(0));
}

StateStore::~StateStore() {
  if (Planted(PlantedBug::kEarlyAnswer)) CommitLate().IgnoreError();
}

// Only with a planted bug: the transaction of the last Append is still open.
absl::Status StateStore::CommitLate() {
  return std::exchange(late_, false) ? database_->Commit() : absl::OkStatus();
}

absl::Status StateStore::Append(const ChangeSet& changes) {
  MUSTER_RETURN_IF_ERROR(CommitLate());
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  if (absl::Status status = AppendRows(changes); !status.ok()) {
    database_->Rollback();
    return status;
  }
  if (Planted(PlantedBug::kEarlyAnswer) && changes.new_jobs.empty()) {
    late_ = true;
    return absl::OkStatus();
  }
  return database_->Commit();
}

absl::Status StateStore::TruncateLog() {
  return late_ ? absl::OkStatus() : database_->CheckpointWhenLarge();
}

absl::Status StateStore::AppendRows(const ChangeSet& changes) {
  // Their idempotency keys may be those of new jobs.
  if (!changes.jobs_forgotten.empty()) MUSTER_RETURN_IF_ERROR(ForgetJobs(changes));
  for (const auto& job : changes.new_jobs) MUSTER_RETURN_IF_ERROR(InsertJob(*job));
  for (const auto& job : changes.jobs) MUSTER_RETURN_IF_ERROR(UpdateJob(*job));
  for (const auto& change : changes.attempts) MUSTER_RETURN_IF_ERROR(PutAttempt(change));
  for (uint64_t id : changes.workers_forgotten) {
    MUSTER_RETURN_IF_ERROR(database_->Prepare("DELETE FROM workers WHERE id = ?").Bind(id).Run());
  }
  for (const auto& worker : changes.workers) MUSTER_RETURN_IF_ERROR(PutWorker(*worker));
  for (const auto& row : changes.checkpoints) MUSTER_RETURN_IF_ERROR(PutCheckpoint(*row));
  for (const auto& row : changes.projects) MUSTER_RETURN_IF_ERROR(PutProject(*database_, *row));
  for (const RootIdentity& root : changes.roots) MUSTER_RETURN_IF_ERROR(PutRoot(*database_, root));
  for (const auto& event : changes.events) MUSTER_RETURN_IF_ERROR(InsertEvent(*event));
  for (const OutboxRow& row : changes.outbox_added) MUSTER_RETURN_IF_ERROR(InsertOutbox(row));
  for (uint64_t seq : changes.outbox_removed) {
    MUSTER_RETURN_IF_ERROR(database_->Prepare("DELETE FROM outbox WHERE seq = ?").Bind(seq).Run());
  }
  // Acknowledged rows go, but their numbers are never used again: agents drop what they have seen.
  if (changes.outbox_added.empty()) return absl::OkStatus();
  return PutMeta("last_outbox", changes.last_outbox);
}

absl::Status StateStore::ForgetJobs(const ChangeSet& changes) {
  for (const auto& job : changes.jobs_forgotten) {
    MUSTER_RETURN_IF_ERROR(DeleteJob(*database_, *job));
  }
  const ChangeSet::Forgotten& forgotten = changes.forgotten;
  for (const auto& [project, time] : forgotten.time) {
    MUSTER_RETURN_IF_ERROR(PutForgottenTime(*database_, project, time));
  }
  // The highest ones may be gone with the rows, and none is given again.
  MUSTER_RETURN_IF_ERROR(PutMeta("last_job", forgotten.last_job));
  MUSTER_RETURN_IF_ERROR(PutMeta("last_checkpoint", forgotten.last_checkpoint));
  MUSTER_RETURN_IF_ERROR(PutMeta("last_event", forgotten.last_event));
  MUSTER_RETURN_IF_ERROR(PutMeta("forgotten_events", forgotten.events));
  if (forgotten.until == absl::InfinitePast()) return absl::OkStatus();
  return PutMeta("forgotten_until_ns", static_cast<uint64_t>(absl::ToUnixNanos(forgotten.until)));
}

absl::Status StateStore::InsertJob(const Job& job) {
  SqliteStatement row = database_->Prepare(
      "INSERT INTO jobs (id, owner, idempotency_key, name, project, checkpoint_root, spec, "
      "written_spec, spec_json,"
      " array_id, array_index, array_at_a_time, folder_tag, settings, held, suspending, requeue_id,"
      " requeued_after, state, reason, message,"
      " submitted_ms, started_ms, finished_ms, attempt, restarts, restarts_in_row, failure_class,"
      " phase, step, total_steps, epoch, memory_bytes, memory_peak_bytes, best_validation_accuracy,"
      " latest, results, charged, ledger) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "?, ?, ?,"
      " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.Bind(job.id).Bind(job.owner).Bind(job.idempotency_key);
  row.Bind(job.settings->name)
      .Bind(job.settings->project)
      .Bind(job.settings->checkpoint_root)
      .BindBlob(job.settings->spec)
      .BindBlob(job.settings->written_spec)
      .Bind("");
  row.Bind(job.array.array_id).Bind(job.array.index).Bind(job.array.at_a_time);
  row.Bind(job.folder_tag);
  BindCourse(row, job);
  return row.Run();
}

absl::Status StateStore::UpdateJob(const Job& job) {
  SqliteStatement row = database_->Prepare(
      "UPDATE jobs SET settings = ?, held = ?, suspending = ?, requeue_id = ?,"
      " requeued_after = ?, state = ?, reason = ?, message = ?,"
      " submitted_ms = ?, started_ms = ?, finished_ms = ?, attempt = ?, restarts = ?,"
      " restarts_in_row = ?, failure_class = ?, phase = ?, step = ?, total_steps = ?, epoch = ?,"
      " memory_bytes = ?, memory_peak_bytes = ?, best_validation_accuracy = ?, latest = ?,"
      " results = ?, charged = ?, ledger = ? WHERE id = ?");
  BindCourse(row, job);
  return row.Bind(job.id).Run();
}

absl::Status StateStore::PutAttempt(const ChangeSet::AttemptChange& change) {
  const Attempt& attempt = *change.attempt;
  {
    // Not INSERT OR REPLACE: that would delete the row which the ranks refer to.
    SqliteStatement row = database_->Prepare(
        "INSERT INTO attempts (job_id, number, generation, term, started_ms, ended_ms,"
        " failure_class, cause, reason, reached_running, save_requested, first_step, last_step,"
        " resume, yielded_to, failed_rank, stake_slot_seconds, lost_slot_seconds,"
        " missing, held_from_ns, held_until_ns)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (job_id, number) DO UPDATE SET ended_ms = excluded.ended_ms,"
        " failure_class = excluded.failure_class, cause = excluded.cause, reason = excluded.reason,"
        " reached_running = excluded.reached_running, save_requested = excluded.save_requested,"
        " first_step = excluded.first_step, last_step = excluded.last_step,"
        " yielded_to = excluded.yielded_to, failed_rank = excluded.failed_rank,"
        " stake_slot_seconds = excluded.stake_slot_seconds,"
        " lost_slot_seconds = excluded.lost_slot_seconds, missing = excluded.missing,"
        " held_until_ns = excluded.held_until_ns");
    row.Bind(attempt.job_id).Bind(attempt.number).Bind(attempt.generation).Bind(attempt.term);
    BindTime(row, attempt.started);
    BindTime(row, attempt.ended);
    row.Bind(static_cast<int>(attempt.failure_class))
        .Bind(attempt.cause)
        .Bind(static_cast<int>(attempt.reason))
        .Bind(attempt.reached_running)
        .Bind(attempt.save_requested)
        .Bind(attempt.first_step)
        .Bind(attempt.last_step)
        .Bind(EncodeIds(attempt.resume))
        .Bind(attempt.yielded_to)
        .Bind(attempt.failed_rank)
        .Bind(attempt.stake_slot_seconds)
        .Bind(attempt.lost_slot_seconds)
        .Bind(static_cast<int>(attempt.missing));
    BindNanos(row, attempt.held_from);
    BindNanos(row, attempt.held_until);
    MUSTER_RETURN_IF_ERROR(row.Run());
  }
  for (uint32_t index : change.ranks) {
    const Rank& rank = attempt.ranks[index];
    SqliteStatement row = database_->Prepare(
        "INSERT OR REPLACE INTO ranks (job_id, attempt, rank, worker, incarnation, slots,"
        " local_rank,"
        " state, succeeded, holds_slots, exit_code, signal, pid, last_step, held_from_ns,"
        " held_until_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row.Bind(attempt.job_id).Bind(attempt.number).Bind(rank.rank).Bind(rank.worker);
    row.BindBlob(rank.incarnation)
        .Bind(EncodeIds({rank.slots.begin(), rank.slots.end()}))
        .Bind(rank.local_rank)
        .Bind(static_cast<int>(rank.state))
        .Bind(rank.succeeded)
        .Bind(rank.holds_slots)
        .Bind(rank.exit_code)
        .Bind(rank.signal)
        .Bind(rank.pid)
        .Bind(rank.last_step);
    BindNanos(row, rank.held_from);
    BindNanos(row, rank.held_until);
    MUSTER_RETURN_IF_ERROR(row.Run());
  }
  return absl::OkStatus();
}

absl::Status StateStore::PutWorker(const Worker& worker) {
  SqliteStatement row = database_->Prepare(
      "INSERT OR REPLACE INTO workers (id, name, incarnation, past_incarnations, version, pool,"
      " labels, slots, cpus, memory_bytes, advertise_address, metrics_address, lost, draining,"
      " last_heartbeat_ms, event_seq, event_seq_known, cordoned, cordon_reason, strikes,"
      " quarantined_until_ms, quarantine_reason, quarantines, paroled_ms, allows_commands,"
      " container_runtimes, identity)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.Bind(worker.id)
      .Bind(worker.name)
      .BindBlob(worker.incarnation)
      .Bind(EncodeHexList(worker.past_incarnations))
      .Bind(worker.facts.version)
      .Bind(worker.facts.pool)
      .Bind(EncodeTexts(worker.facts.labels))
      .Bind(EncodeSlots(worker.facts.slots))
      .Bind(worker.facts.cpus)
      .Bind(worker.facts.memory_bytes)
      .Bind(worker.facts.advertise_address)
      .Bind(worker.facts.metrics_address)
      .Bind(worker.presence == Presence::kLost)
      .Bind(worker.draining);
  BindTime(row, worker.last_heartbeat);
  row.Bind(worker.event_seq)
      .Bind(worker.event_seq_known)
      .Bind(worker.cordoned)
      .Bind(worker.cordon_reason)
      .Bind(EncodeWorkerFailures(worker.failures));
  BindTime(row, worker.quarantined_until);
  row.Bind(worker.quarantine_reason).Bind(worker.quarantines);
  BindTime(row, worker.quarantine_ended);
  row.Bind(worker.facts.allows_commands)
      .Bind(absl::StrJoin(worker.facts.container_runtimes, ","))
      .BindBlob(worker.identity);
  return row.Run();
}

absl::Status StateStore::PutCheckpoint(const Checkpoint& checkpoint) {
  SqliteStatement row = database_->Prepare(
      "INSERT OR REPLACE INTO checkpoints (id, job_id, step, attempt, state, path, bytes,"
      " manifest_sha256, best, epoch, metrics, created_ms, verified_ms, verdicts, message,"
      " created_at_ns, doubt_worker, doubt_message, doubt_missing)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.Bind(checkpoint.id)
      .Bind(checkpoint.job_id)
      .Bind(checkpoint.step)
      .Bind(checkpoint.attempt)
      .Bind(static_cast<int>(checkpoint.state))
      .Bind(checkpoint.path)
      .Bind(checkpoint.bytes)
      .Bind(checkpoint.manifest_sha256)
      .Bind(checkpoint.best)
      .Bind(checkpoint.epoch)
      .Bind(EncodeNumbers(checkpoint.metrics));
  BindTime(row, checkpoint.created);
  BindTime(row, checkpoint.verified);
  row.Bind(checkpoint.rereads).Bind(checkpoint.message);
  BindNanos(row, checkpoint.created_at);
  if (checkpoint.doubt.has_value()) {
    row.Bind(checkpoint.doubt->worker)
        .Bind(checkpoint.doubt->message)
        .Bind(checkpoint.doubt->missing);
  } else {
    row.BindNull().Bind("").Bind(false);
  }
  return row.Run();
}

absl::Status StateStore::InsertEvent(const JobEvent& event) {
  SqliteStatement row = database_->Prepare(
      "INSERT INTO events (sequence, job_id, time_ms, from_state, to_state, reason, actor, message,"
      " attempt, at_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.Bind(event.sequence).Bind(event.job_id);
  BindTime(row, event.time);
  row.Bind(static_cast<int>(event.from))
      .Bind(static_cast<int>(event.to))
      .Bind(static_cast<int>(event.reason))
      .Bind(event.actor)
      .Bind(event.message)
      .Bind(event.attempt);
  BindNanos(row, event.at);
  return row.Run();
}

absl::Status StateStore::InsertOutbox(const OutboxRow& row) {
  SqliteStatement statement = database_->Prepare(
      "INSERT INTO outbox (seq, worker, incarnation, kind, job_id, attempt, generation, term, mode,"
      " grace_ms, reason, checkpoint_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  return statement.Bind(row.seq)
      .Bind(row.worker)
      .BindBlob(row.incarnation)
      .Bind(static_cast<int>(row.kind))
      .Bind(row.fence.job_id)
      .Bind(row.fence.attempt)
      .Bind(row.fence.generation)
      .Bind(row.fence.term)
      .Bind(static_cast<int>(row.mode))
      .Bind(absl::ToInt64Milliseconds(row.grace))
      .Bind(row.reason)
      .Bind(row.checkpoint_id)
      .Run();
}

absl::Status StateStore::PutMeta(const char* key, uint64_t value) {
  return database_->Prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)")
      .Bind(key)
      .Bind(value)
      .Run();
}

}  // namespace muster::controller
