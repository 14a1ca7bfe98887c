// The reading half of StateStore: the tables into one snapshot.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "controller/store/archived_time_rows.h"
#include "controller/store/job_rows.h"
#include "controller/store/project_rows.h"
#include "controller/store/root_rows.h"
#include "controller/store/row_codec.h"
#include "controller/store/state_store.h"

namespace muster::controller {
namespace {

using Workers = std::map<std::string, Worker>;  // by name

absl::Status LoadWorkers(SqliteDatabase& db, absl::Duration now, absl::Time wall,
                         Workers& workers) {
  SqliteStatement row = db.Prepare(
      "SELECT id, name, incarnation, past_incarnations, version, pool, labels, slots, cpus,"
      " memory_bytes, advertise_address, metrics_address, lost, draining, last_heartbeat_ms,"
      " event_seq, event_seq_known, cordoned, cordon_reason, strikes, quarantined_until_ms,"
      " quarantine_reason, quarantines, paroled_ms, allows_commands, container_runtimes, identity"
      " FROM workers ORDER BY id");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    Worker worker;
    worker.id = row.Int(0);
    worker.name = row.Text(1);
    worker.incarnation = row.Text(2);
    MUSTER_ASSIGN_OR_RETURN(worker.past_incarnations, DecodeHexList(row.Text(3)));
    worker.facts.version = row.Text(4);
    worker.facts.pool = row.Text(5);
    MUSTER_ASSIGN_OR_RETURN(worker.facts.labels, DecodeTexts(row.Text(6)));
    MUSTER_ASSIGN_OR_RETURN(worker.facts.slots, DecodeSlots(row.Text(7)));
    worker.facts.cpus = row.Int(8);
    worker.facts.memory_bytes = row.Int(9);
    worker.facts.advertise_address = row.Text(10);
    worker.facts.metrics_address = row.Text(11);
    worker.lost = row.Int(12) != 0;
    worker.pulse.suspect = !worker.lost;
    worker.draining = row.Int(13) != 0;
    worker.pulse.last_heartbeat = ReadTime(row, 14, absl::InfinitePast());
    // A lost one has been silent for longer than this controller has run.
    const bool known_lost = worker.lost && worker.pulse.last_heartbeat != absl::InfinitePast();
    const absl::Duration silent =
        std::max(wall - worker.pulse.last_heartbeat, absl::ZeroDuration());
    worker.pulse.last_seen_at = known_lost ? now - silent : now;
    worker.event_seq = row.Int(15);
    worker.event_seq_known = row.Int(16) != 0;
    worker.cordoned = row.Int(17) != 0;
    worker.cordon_reason = FreeText(row, 18);
    MUSTER_ASSIGN_OR_RETURN(worker.failures, DecodeWorkerFailures(row.Text(19)));
    worker.quarantined_until = ReadTime(row, 20, absl::InfinitePast());
    worker.quarantine_reason = FreeText(row, 21);
    worker.quarantines = row.Int(22);
    worker.quarantine_ended = ReadTime(row, 23, absl::InfinitePast());
    worker.facts.allows_commands = row.Int(24) != 0;
    worker.facts.container_runtimes = absl::StrSplit(row.Text(25), ',', absl::SkipEmpty());
    worker.identity = row.Text(26);
    workers.emplace(worker.name, std::move(worker));
  }
}

// The slots, CPUs and memory that ranks of the job hold on the workers.
void HoldSlotsOf(const Job& job, Workers& workers) {
  const auto hold = [&](const Attempt& attempt) {
    for (const Rank& rank : attempt.ranks) {
      const auto worker = workers.find(rank.worker);
      if (!rank.holds_slots || worker == workers.end()) continue;
      HoldSlots(worker->second.pulse, job.settings->needs, job.id, attempt.number, rank);
    }
  };
  for (const auto& attempt : job.past) hold(*attempt);
  if (job.current != nullptr) hold(*job.current);
}

absl::Status CheckSources(const SqliteDatabase& db, const JobRows& rows) {
  for (const auto& [id, job] : rows.jobs) {
    for (uint64_t source : job.settings->resume_from) {
      if (rows.checkpoints.count(source) != 0) continue;
      return Contradiction(
          db, absl::StrCat("job ", id, " begins from checkpoint ", source, ", which is not there"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEvents(const SqliteDatabase& db, const JobRows& rows, Snapshot& snapshot) {
  const auto states = ReplayEvents(rows.events, snapshot.archived_events);
  if (!states.ok()) return Contradiction(db, std::string(states.status().message()));
  if (!rows.events.empty()) {
    snapshot.last_event = std::max(snapshot.last_event, rows.events.back()->sequence);
  }
  if (rows.events.size() + snapshot.archived_events != snapshot.last_event) {
    return Contradiction(
        db, absl::StrCat("of ", snapshot.last_event, " events ", rows.events.size(),
                         " are there and ", snapshot.archived_events, " are archived"));
  }
  for (const auto& [id, job] : rows.jobs) {
    const auto state = states->find(id);
    if (state == states->end() || state->second != job.state) {
      return Contradiction(db, absl::StrCat("job ", id, " is ", JobStateName(job.state),
                                            ", which its events do not say"));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadOutbox(SqliteDatabase& db, Snapshot& snapshot) {
  {
    SqliteStatement row = db.Prepare(
        "SELECT seq, worker, incarnation, kind, job_id, attempt, generation, term, mode, grace_ms,"
        " reason, checkpoint_id FROM outbox ORDER BY seq");
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
      if (!more) break;
      OutboxRow loaded;
      loaded.seq = row.Int(0);
      loaded.worker = row.Text(1);
      loaded.incarnation = row.Text(2);
      loaded.kind = static_cast<AssignmentKind>(row.Int(3));
      loaded.fence = {.job_id = static_cast<uint64_t>(row.Int(4)),
                      .attempt = static_cast<uint32_t>(row.Int(5)),
                      .generation = static_cast<uint32_t>(row.Int(6)),
                      .term = static_cast<uint64_t>(row.Int(7))};
      loaded.mode = static_cast<StopMode>(row.Int(8));
      loaded.grace = absl::Milliseconds(row.Int(9));
      loaded.reason = FreeText(row, 10);
      loaded.checkpoint_id = row.Int(11);
      snapshot.outbox.Add(std::move(loaded));
    }
  }
  SqliteStatement last = db.Prepare("SELECT value FROM meta WHERE key = 'last_outbox'");
  MUSTER_ASSIGN_OR_RETURN(const bool found, last.Step());
  snapshot.last_outbox = found ? last.Int(0) : 0;
  snapshot.last_outbox_before_term = snapshot.last_outbox;
  return absl::OkStatus();
}

// What the dispatcher relies on: a row's attempt is the job's newest, its checkpoint exists.
absl::Status CheckOutbox(const SqliteDatabase& db, const Snapshot& snapshot) {
  uint64_t unsound = 0;
  snapshot.outbox.AnyOf([&](const OutboxRow& row) {
    bool sound = true;
    if (row.kind == AssignmentKind::kStart) {
      const Job* job = snapshot.FindJob(row.fence.job_id);
      sound =
          job != nullptr && job->has_live_attempt() && job->current->number == row.fence.attempt;
    } else if (row.kind == AssignmentKind::kVerify || row.kind == AssignmentKind::kDelete) {
      sound = snapshot.FindCheckpoint(row.checkpoint_id) != nullptr;
    }
    if (!sound) unsound = row.seq;
    return !sound;
  });
  if (unsound == 0) return absl::OkStatus();
  return Contradiction(db, absl::StrCat("outbox row ", unsound, " refers to nothing"));
}

void Install(JobRows rows, Workers workers, Snapshot& snapshot) {
  for (auto& [id, job] : rows.jobs) {
    // What the largest rank has now its worker will say.
    if (job.has_live_attempt()) job.progress.memory_bytes = 0;
    snapshot.jobs.Put(id, std::make_shared<const Job>(std::move(job)));
  }
  for (auto& [id, checkpoint] : rows.checkpoints) {
    snapshot.checkpoints.Put(id, std::move(checkpoint));
  }
  for (const auto& event : rows.events) snapshot.events.Put(event->sequence, event);
  auto ids = std::make_shared<std::map<std::string, uint64_t>>();
  for (auto& [name, worker] : workers) {
    ids->emplace(name, worker.id);
    const uint64_t id = worker.id;
    snapshot.workers.Put(id, std::make_shared<const Worker>(std::move(worker)));
  }
  snapshot.worker_ids = std::move(ids);
}

}  // namespace

absl::StatusOr<uint64_t> StateStore::GetMeta(const char* key) {
  SqliteStatement row = database_->Prepare("SELECT value FROM meta WHERE key = ?");
  row.Bind(key);
  MUSTER_ASSIGN_OR_RETURN(const bool found, row.Step());
  return found ? static_cast<uint64_t>(row.Int(0)) : 0;
}

absl::Status StateStore::LoadArchived(Snapshot& snapshot) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t last_job, GetMeta("last_job"));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t last_checkpoint, GetMeta("last_checkpoint"));
  snapshot.jobs.SkipTo(last_job);
  snapshot.checkpoints.SkipTo(last_checkpoint);
  MUSTER_ASSIGN_OR_RETURN(snapshot.last_event, GetMeta("last_event"));
  MUSTER_ASSIGN_OR_RETURN(snapshot.archived_put, GetMeta("history_put"));
  MUSTER_ASSIGN_OR_RETURN(snapshot.archived_events, GetMeta("forgotten_events"));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t until, GetMeta("forgotten_until_ns"));
  if (until != 0) snapshot.archived_until = absl::FromUnixNanos(static_cast<int64_t>(until));
  return absl::OkStatus();
}

absl::StatusOr<absl::Time> StateStore::KeepOrigin(uint64_t boot, absl::Time origin) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t known, GetMeta("ledger_boot"));
  if (known == boot) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t nanos, GetMeta("ledger_origin_ns"));
    return absl::FromUnixNanos(static_cast<int64_t>(nanos));
  }
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  absl::Status stored = PutMeta("ledger_boot", boot);
  if (stored.ok()) {
    stored = PutMeta("ledger_origin_ns", static_cast<uint64_t>(absl::ToUnixNanos(origin)));
  }
  if (!stored.ok()) {
    database_->Rollback();
    return stored;
  }
  MUSTER_RETURN_IF_ERROR(database_->Commit());
  return origin;
}

absl::StatusOr<std::string> StateStore::ControllerId() {
  SqliteStatement row = database_->Prepare("SELECT id FROM controller");
  MUSTER_ASSIGN_OR_RETURN(const bool found, row.Step());
  if (!found) return Contradiction(*database_, "the controller has no id");
  return row.Text(0);
}

absl::StatusOr<Snapshot> StateStore::Load(uint64_t term, absl::Duration now, absl::Time wall,
                                          uint64_t boot) {
  Snapshot snapshot;
  snapshot.term = term;
  snapshot.started = wall;
  MUSTER_ASSIGN_OR_RETURN(snapshot.controller_id, ControllerId());
  MUSTER_RETURN_IF_ERROR(LoadArchived(snapshot));
  MUSTER_RETURN_IF_ERROR(LoadArchivedTime(*database_, snapshot));
  Workers workers;
  MUSTER_RETURN_IF_ERROR(LoadWorkers(*database_, now, wall, workers));
  MUSTER_ASSIGN_OR_RETURN(JobRows rows,
                          ReadJobs(*database_, 0, std::numeric_limits<int64_t>::max(), now));
  absl::Time newest = snapshot.archived_until;  // ledger time that is stored
  for (const auto& [id, job] : rows.jobs) {
    newest = std::max(newest, job.ledger.until);
    HoldSlotsOf(job, workers);
  }
  MUSTER_RETURN_IF_ERROR(CheckSources(*database_, rows));
  MUSTER_RETURN_IF_ERROR(CheckEvents(*database_, rows, snapshot));
  MUSTER_RETURN_IF_ERROR(LoadOutbox(*database_, snapshot));
  MUSTER_RETURN_IF_ERROR(LoadRoots(*database_, snapshot));
  snapshot.ledger_origin = std::max(wall, newest) - now;
  if (boot != 0) {
    MUSTER_ASSIGN_OR_RETURN(snapshot.ledger_origin, KeepOrigin(boot, snapshot.ledger_origin));
    // It never goes back, whatever the row says.
    snapshot.ledger_origin = std::max(snapshot.ledger_origin, newest - now);
  }
  MUSTER_ASSIGN_OR_RETURN(auto projects, LoadProjects(*database_, snapshot.LedgerTime(now)));
  snapshot.projects = std::make_shared<const decltype(projects)>(std::move(projects));
  Install(std::move(rows), std::move(workers), snapshot);
  Draft lists(snapshot);
  MUSTER_RETURN_IF_ERROR(CheckOutbox(*database_, snapshot));
  lists.RebuildJobLists();
  return *lists.Finish();
}

absl::StatusOr<std::map<uint64_t, JobState>> ReplayEvents(
    const std::vector<std::shared_ptr<const JobEvent>>& events, uint64_t archived) {
  std::map<uint64_t, JobState> states;
  uint64_t seen = 0;
  for (const auto& event : events) {
    // Those before it are there or archived.
    if (event->sequence > ++seen + archived) {
      return absl::DataLossError(absl::StrCat("event ", seen + archived, " is missing"));
    }
    const auto [state, first] = states.emplace(event->job_id, event->to);
    if (!first && state->second != event->from) {
      return absl::DataLossError(absl::StrCat("event ", event->sequence, " starts from ",
                                              JobStateName(event->from), ", but job ",
                                              event->job_id, " was ", JobStateName(state->second)));
    }
    state->second = event->to;
  }
  return states;
}

}  // namespace muster::controller
