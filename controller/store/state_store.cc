#include "controller/store/state_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "controller/store/archived_time_rows.h"
#include "controller/store/job_rows.h"
#include "controller/store/project_rows.h"
#include "controller/store/root_rows.h"
#include "controller/store/row_codec.h"
#include "controller/store/state_schema.h"

namespace muster::controller {

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

absl::Status StateStore::PutRestored(absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t term, GetMeta("term"));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t last_outbox, GetMeta("last_outbox"));
  const uint64_t new_term = std::max<uint64_t>(term + 1, absl::ToUnixSeconds(now));
  const uint64_t new_outbox = std::max<uint64_t>(last_outbox, absl::ToUnixMicros(now));
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  absl::Status status;
  for (const auto& [key, value] :
       {std::pair("restored_term", term), std::pair("restored_outbox", last_outbox),
        std::pair("restored_at_term", new_term), std::pair("restored_accepted", uint64_t{0}),
        std::pair("term", new_term), std::pair("last_outbox", new_outbox)}) {
    if (status.ok()) status = PutMeta(key, value);
  }
  if (!status.ok()) {
    database_->Rollback();
    return status;
  }
  return database_->Commit();
}

absl::StatusOr<std::optional<RestoredFrom>> StateStore::Restored() {
  RestoredFrom restored;
  MUSTER_ASSIGN_OR_RETURN(restored.restored_at_term, GetMeta("restored_at_term"));
  if (restored.restored_at_term == 0) return std::nullopt;
  MUSTER_ASSIGN_OR_RETURN(restored.term, GetMeta("restored_term"));
  MUSTER_ASSIGN_OR_RETURN(restored.last_outbox, GetMeta("restored_outbox"));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t accepted, GetMeta("restored_accepted"));
  restored.accepted = accepted != 0;
  return restored;
}

absl::Status StateStore::AcceptRestored() {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  const absl::Status status = PutMeta("restored_accepted", 1);
  if (!status.ok()) {
    database_->Rollback();
    return status;
  }
  return database_->Commit();
}

absl::Status StateStore::Append(const ChangeSet& changes) {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  if (absl::Status status = AppendRows(changes); !status.ok()) {
    database_->Rollback();
    return status;
  }
  return database_->Commit();
}

absl::Status StateStore::AppendRows(const ChangeSet& changes) {
  // Their idempotency keys may be those of new jobs.
  for (const auto& job : changes.jobs_archived) MUSTER_RETURN_IF_ERROR(DeleteJob(*database_, *job));
  for (const ArchivedJob& restored : changes.jobs_restored) {
    MUSTER_RETURN_IF_ERROR(InsertWholeJob(*database_, *restored.job, restored.checkpoints));
  }
  if (!changes.jobs_archived.empty() || !changes.jobs_restored.empty()) {
    MUSTER_RETURN_IF_ERROR(PutArchived(changes.archived));
  }
  for (const auto& job : changes.new_jobs) MUSTER_RETURN_IF_ERROR(InsertJobRow(*database_, *job));
  for (const auto& job : changes.jobs) MUSTER_RETURN_IF_ERROR(UpdateJobRow(*database_, *job));
  for (const auto& change : changes.attempts) {
    MUSTER_RETURN_IF_ERROR(PutAttempt(*database_, *change.attempt, change.ranks));
  }
  for (uint64_t id : changes.workers_forgotten) {
    MUSTER_RETURN_IF_ERROR(database_->Prepare("DELETE FROM workers WHERE id = ?").Bind(id).Run());
  }
  for (const auto& worker : changes.workers) MUSTER_RETURN_IF_ERROR(PutWorker(*worker));
  for (const auto& row : changes.checkpoints)
    MUSTER_RETURN_IF_ERROR(PutCheckpoint(*database_, *row));
  for (const auto& row : changes.projects) MUSTER_RETURN_IF_ERROR(PutProject(*database_, *row));
  for (const RootIdentity& root : changes.roots) MUSTER_RETURN_IF_ERROR(PutRoot(*database_, root));
  for (const auto& event : changes.events) MUSTER_RETURN_IF_ERROR(InsertEvent(*database_, *event));
  for (const OutboxRow& row : changes.outbox_added) MUSTER_RETURN_IF_ERROR(InsertOutbox(row));
  for (uint64_t seq : changes.outbox_removed) {
    MUSTER_RETURN_IF_ERROR(database_->Prepare("DELETE FROM outbox WHERE seq = ?").Bind(seq).Run());
  }
  // Acknowledged rows go, but their numbers are never used again: agents drop what they have seen.
  if (changes.outbox_added.empty()) return absl::OkStatus();
  return PutMeta("last_outbox", changes.last_outbox);
}

absl::Status StateStore::PutSkipped(const Snapshot& snapshot) {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  const absl::Status status = PutArchived({.last_job = snapshot.jobs.last_id(),
                                           .last_checkpoint = snapshot.checkpoints.last_id(),
                                           .last_event = snapshot.last_event,
                                           .put = snapshot.archived_put,
                                           .events = snapshot.archived_events,
                                           .until = snapshot.archived_until,
                                           .time = {}});
  if (!status.ok()) {
    database_->Rollback();
    return status;
  }
  return database_->Commit();
}

absl::Status StateStore::PutArchived(const ChangeSet::Archived& archived) {
  for (const auto& [project, time] : archived.time) {
    MUSTER_RETURN_IF_ERROR(PutArchivedTime(*database_, project, time));
  }
  // The highest ones may be gone with the rows, and none is given again.
  MUSTER_RETURN_IF_ERROR(PutMeta("last_job", archived.last_job));
  MUSTER_RETURN_IF_ERROR(PutMeta("last_checkpoint", archived.last_checkpoint));
  MUSTER_RETURN_IF_ERROR(PutMeta("last_event", archived.last_event));
  MUSTER_RETURN_IF_ERROR(PutMeta("history_put", archived.put));
  MUSTER_RETURN_IF_ERROR(PutMeta("forgotten_events", archived.events));
  if (archived.until == absl::InfinitePast()) return absl::OkStatus();
  return PutMeta("forgotten_until_ns", static_cast<uint64_t>(absl::ToUnixNanos(archived.until)));
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
      .Bind(worker.lost)
      .Bind(worker.draining);
  BindTime(row, worker.pulse.last_heartbeat);
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
