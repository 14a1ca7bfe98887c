// The reading half of StateStore: the tables, row by row, into one snapshot.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/planted_bug.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "controller/store/forgotten_rows.h"
#include "controller/store/ledger_codec.h"
#include "controller/store/project_rows.h"
#include "controller/store/root_rows.h"
#include "controller/store/row_codec.h"
#include "controller/store/settings_codec.h"
#include "controller/store/state_store.h"

namespace muster::controller {
namespace {

// What is put together before it becomes immutable.
struct Loading {
  std::map<uint64_t, Job> jobs;
  std::map<uint64_t, std::vector<Attempt>> attempts;  // by job, oldest first
  std::map<std::string, Worker> workers;
  std::vector<std::shared_ptr<const JobEvent>> events;
  absl::Time newest = absl::InfinitePast();  // ledger time that is stored
};

absl::Status Contradiction(const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("state.db contradicts itself: ", what, "; restore it from a backup"));
}

// What people and programs said. An older Muster may have cut it inside a character.
std::string FreeText(const SqliteStatement& row, int column) {
  return RepairUtf8(row.Text(column));
}

absl::Status LoadJobs(SqliteDatabase& db, Loading& loading) {
  SqliteStatement row = db.Prepare(
      "SELECT id, owner, idempotency_key, checkpoint_root, spec_json, array_id, array_index,"
      " array_at_a_time, settings, held, suspending, state, reason, message, submitted_ms,"
      " started_ms, finished_ms, attempt, restarts, restarts_in_row, failure_class, phase, step,"
      " total_steps, epoch, memory_bytes, memory_peak_bytes, best_validation_accuracy, latest,"
      " results, charged, requeue_id, requeued_after, ledger, spec, written_spec,"
      " folder_tag FROM jobs ORDER BY id");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    Job job;
    job.id = row.Int(0);
    job.owner = row.Text(1);
    job.idempotency_key = row.Text(2);
    job.array = {.array_id = static_cast<uint64_t>(row.Int(5)),
                 .index = static_cast<uint32_t>(row.Int(6)),
                 .at_a_time = static_cast<uint32_t>(row.Int(7))};
    MUSTER_ASSIGN_OR_RETURN(JobSettings settings, DecodeSettings(row.Text(8)));
    settings.checkpoint_root = row.Text(3);
    settings.spec = row.Text(34);
    settings.written_spec = row.Text(35);
    job.folder_tag = row.Text(36);
    if (settings.spec.empty()) settings.spec = row.Text(4);
    job.settings = std::make_shared<const JobSettings>(std::move(settings));
    job.held = row.Int(9) != 0;
    job.suspending = row.Int(10) != 0;
    job.state = static_cast<JobState>(row.Int(11));
    job.reason = static_cast<Reason>(row.Int(12));
    job.message = FreeText(row, 13);
    job.submitted = ReadTime(row, 14, absl::InfinitePast());
    job.started = ReadTime(row, 15, absl::InfinitePast());
    job.finished = ReadTime(row, 16, absl::InfinitePast());
    job.attempt = row.Int(17);
    job.restarts = row.Int(18);
    job.restarts_in_row = row.Int(19);
    job.failure_class = static_cast<FailureClass>(row.Int(20));
    job.progress.phase = row.Text(21);
    job.progress.step = row.Int(22);
    job.progress.total_steps = row.Int(23);
    job.progress.epoch = row.Double(24);
    job.progress.memory_bytes = row.Double(25);
    job.progress.memory_peak_bytes = row.Double(26);
    job.progress.best_validation_accuracy = row.Double(27);
    MUSTER_ASSIGN_OR_RETURN(job.progress.latest, DecodeNumbers(row.Text(28)));
    MUSTER_ASSIGN_OR_RETURN(job.results, DecodeNumbers(row.Text(29)));
    MUSTER_ASSIGN_OR_RETURN(job.charged, DecodeCharged(row.Text(30)));
    job.requeue_id = row.Text(31);
    job.requeued_after = row.Int(32);
    MUSTER_ASSIGN_OR_RETURN(job.ledger, DecodeLedger(row.Text(33)));
    loading.newest = std::max(loading.newest, job.ledger.until);
    loading.jobs.emplace(job.id, std::move(job));
  }
}

absl::Status LoadAttempts(SqliteDatabase& db, absl::Duration now, Loading& loading) {
  SqliteStatement row = db.Prepare(
      "SELECT job_id, number, generation, term, started_ms, ended_ms, failure_class, cause, reason,"
      " reached_running, save_requested, first_step, last_step, resume, yielded_to, failed_rank,"
      " stake_slot_seconds, lost_slot_seconds, missing, held_from_ns, held_until_ns FROM attempts"
      " ORDER BY job_id, number");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    Attempt attempt;
    attempt.job_id = row.Int(0);
    attempt.number = row.Int(1);
    attempt.generation = row.Int(2);
    attempt.term = row.Int(3);
    attempt.started = ReadTime(row, 4, absl::InfinitePast());
    attempt.ended = ReadTime(row, 5, absl::InfiniteFuture());
    attempt.placed_at = now;
    attempt.failure_class = static_cast<FailureClass>(row.Int(6));
    attempt.cause = FreeText(row, 7);
    attempt.reason = static_cast<Reason>(row.Int(8));
    attempt.reached_running = row.Int(9) != 0;
    attempt.save_requested = row.Int(10) != 0;
    attempt.first_step = row.Int(11);
    attempt.last_step = row.Int(12);
    MUSTER_ASSIGN_OR_RETURN(attempt.resume, DecodeIds(row.Text(13)));
    attempt.yielded_to = row.Int(14);
    attempt.failed_rank = static_cast<int32_t>(row.Int(15));
    attempt.stake_slot_seconds = row.Int(16);
    attempt.lost_slot_seconds = row.Int(17);
    attempt.missing = static_cast<Missing>(row.Int(18));
    attempt.held_from = ReadNanos(row, 19, absl::InfinitePast());
    attempt.held_until = ReadNanos(row, 20, absl::InfiniteFuture());
    std::vector<Attempt>& attempts = loading.attempts[attempt.job_id];
    attempts.push_back(std::move(attempt));
    if (attempts.back().number != attempts.size()) {
      return Contradiction(absl::StrCat("job ", attempts.back().job_id, " lacks an attempt"));
    }
  }
}

absl::Status LoadRanks(SqliteDatabase& db, Loading& loading) {
  SqliteStatement row = db.Prepare(
      "SELECT job_id, attempt, rank, worker, incarnation, slots, local_rank, state, succeeded,"
      " holds_slots, exit_code, signal, pid, last_step, held_from_ns, held_until_ns FROM ranks"
      " ORDER BY job_id, attempt, rank");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    const uint64_t job_id = row.Int(0);
    const uint64_t number = row.Int(1);
    const auto attempts = loading.attempts.find(job_id);
    if (attempts == loading.attempts.end() || number == 0 || number > attempts->second.size()) {
      return Contradiction(absl::StrCat("job ", job_id, " has a rank without an attempt"));
    }
    Rank rank;
    rank.rank = row.Int(2);
    rank.worker = row.Text(3);
    rank.incarnation = row.Text(4);
    MUSTER_ASSIGN_OR_RETURN(const std::vector<uint64_t> slots, DecodeIds(row.Text(5)));
    rank.slots.assign(slots.begin(), slots.end());
    rank.local_rank = row.Int(6);
    rank.state = static_cast<RankState>(row.Int(7));
    rank.succeeded = row.Int(8) != 0;
    rank.holds_slots = row.Int(9) != 0;
    rank.exit_code = row.Int(10);
    rank.signal = row.Int(11);
    rank.pid = row.Int(12);
    rank.last_step = row.Int(13);
    rank.held_from = ReadNanos(row, 14, absl::InfinitePast());
    rank.held_until = ReadNanos(row, 15, absl::InfiniteFuture());
    std::vector<Rank>& ranks = attempts->second[number - 1].ranks;
    if (rank.rank != ranks.size()) {
      return Contradiction(absl::StrCat("job ", job_id, " lacks a rank"));
    }
    const auto worker = loading.workers.find(rank.worker);
    if (rank.holds_slots && worker != loading.workers.end()) {
      const JobNeeds& needs = loading.jobs.at(job_id).settings->needs;
      HoldSlots(worker->second, needs, job_id, static_cast<uint32_t>(number), rank);
    }
    ranks.push_back(std::move(rank));
  }
}

absl::Status LoadWorkers(SqliteDatabase& db, absl::Duration now, absl::Time wall,
                         Loading& loading) {
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
    worker.presence = row.Int(12) != 0 ? Presence::kLost : Presence::kSuspect;
    worker.draining = row.Int(13) != 0;
    worker.last_heartbeat = ReadTime(row, 14, absl::InfinitePast());
    // A lost one has been silent for longer than this controller has run.
    const bool known_lost =
        worker.presence == Presence::kLost && worker.last_heartbeat != absl::InfinitePast();
    const absl::Duration silent = std::max(wall - worker.last_heartbeat, absl::ZeroDuration());
    worker.last_seen_at = known_lost ? now - silent : now;
    worker.event_seq = row.Int(15);
    worker.event_seq_known = row.Int(16) != 0;
    if (Planted(PlantedBug::kStaleIncarnation) && worker.past_incarnations.size() > 1) {
      worker.past_incarnations.resize(1);
    }
    if (Planted(PlantedBug::kNoDeduplication) && !worker.past_incarnations.empty()) {
      worker.event_seq_known = false;
    }
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
    loading.workers.emplace(worker.name, std::move(worker));
  }
}

absl::Status LoadCheckpoints(SqliteDatabase& db, Loading& loading, Snapshot& snapshot) {
  SqliteStatement row = db.Prepare(
      "SELECT id, job_id, step, attempt, state, path, bytes, manifest_sha256, best, epoch, metrics,"
      " created_ms, verified_ms, verdicts, message, created_at_ns, doubt_worker, doubt_message,"
      " doubt_missing FROM checkpoints ORDER BY id");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->id = row.Int(0);
    checkpoint->job_id = row.Int(1);
    checkpoint->step = row.Int(2);
    checkpoint->attempt = row.Int(3);
    checkpoint->state = static_cast<CheckpointState>(row.Int(4));
    checkpoint->path = row.Text(5);
    checkpoint->bytes = row.Int(6);
    checkpoint->manifest_sha256 = row.Text(7);
    checkpoint->best = row.Int(8) != 0;
    checkpoint->epoch = row.Double(9);
    MUSTER_ASSIGN_OR_RETURN(checkpoint->metrics, DecodeNumbers(row.Text(10)));
    checkpoint->created = ReadTime(row, 11, absl::InfinitePast());
    checkpoint->verified = ReadTime(row, 12, absl::InfinitePast());
    checkpoint->rereads = row.Int(13);
    checkpoint->message = FreeText(row, 14);
    checkpoint->created_at = ReadNanos(row, 15, absl::InfinitePast());
    if (!row.IsNull(16)) {
      checkpoint->doubt = {
          .worker = row.Text(16), .message = FreeText(row, 17), .missing = row.Int(18) != 0};
    }
    const auto job = loading.jobs.find(checkpoint->job_id);
    if (job == loading.jobs.end()) {
      return Contradiction(absl::StrCat("checkpoint ", checkpoint->id, " has no job"));
    }
    job->second.checkpoints.push_back(checkpoint->id);
    const uint64_t id = checkpoint->id;
    snapshot.checkpoints.Put(id, std::move(checkpoint));
  }
}

absl::Status CheckSources(const Loading& loading, const Snapshot& snapshot) {
  for (const auto& [id, job] : loading.jobs) {
    for (uint64_t source : job.settings->resume_from) {
      if (snapshot.FindCheckpoint(source) != nullptr) continue;
      return Contradiction(
          absl::StrCat("job ", id, " begins from checkpoint ", source, ", which is not there"));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadEvents(SqliteDatabase& db, Loading& loading, Snapshot& snapshot) {
  SqliteStatement row = db.Prepare(
      "SELECT sequence, job_id, time_ms, from_state, to_state, reason, actor, message, attempt,"
      " at_ns FROM events ORDER BY sequence");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) break;
    auto event = std::make_shared<JobEvent>();
    event->sequence = row.Int(0);
    event->job_id = row.Int(1);
    event->time = ReadTime(row, 2, absl::InfinitePast());
    event->from = static_cast<JobState>(row.Int(3));
    event->to = static_cast<JobState>(row.Int(4));
    event->reason = static_cast<Reason>(row.Int(5));
    event->actor = row.Text(6);
    event->message = FreeText(row, 7);
    event->attempt = row.Int(8);
    event->at = ReadNanos(row, 9, absl::InfinitePast());
    const auto job = loading.jobs.find(event->job_id);
    if (job == loading.jobs.end()) {
      return Contradiction(absl::StrCat("event ", event->sequence, " has no job"));
    }
    job->second.events.push_back(event);
    loading.events.push_back(std::move(event));
  }
  MUSTER_ASSIGN_OR_RETURN(const auto states,
                          ReplayEvents(loading.events, snapshot.forgotten_events));
  if (!loading.events.empty()) {
    snapshot.last_event = std::max(snapshot.last_event, loading.events.back()->sequence);
  }
  if (loading.events.size() + snapshot.forgotten_events != snapshot.last_event) {
    return Contradiction(absl::StrCat("of ", snapshot.last_event, " events ", loading.events.size(),
                                      " are there and ", snapshot.forgotten_events,
                                      " are forgotten"));
  }
  for (const auto& [id, job] : loading.jobs) {
    const auto state = states.find(id);
    if (state == states.end() || state->second != job.state) {
      return Contradiction(absl::StrCat("job ", id, " is ", JobStateName(job.state),
                                        ", which its events do not say"));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadOutbox(SqliteDatabase& db, Snapshot& snapshot) {
  auto outbox = std::make_shared<std::map<uint64_t, OutboxRow>>();
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
      const bool is_later = loaded.kind == AssignmentKind::kDelete ||
                            (loaded.kind == AssignmentKind::kStop && loaded.fence.attempt > 1);
      if (Planted(PlantedBug::kLostOutbox) && is_later) continue;
      outbox->emplace(loaded.seq, std::move(loaded));
    }
  }
  snapshot.outbox = std::move(outbox);
  SqliteStatement last = db.Prepare("SELECT value FROM meta WHERE key = 'last_outbox'");
  MUSTER_ASSIGN_OR_RETURN(const bool found, last.Step());
  snapshot.last_outbox = found ? last.Int(0) : 0;
  snapshot.last_outbox_before_term = snapshot.last_outbox;
  return absl::OkStatus();
}

// What the dispatcher relies on: a row's attempt is the job's newest, its checkpoint exists.
absl::Status CheckOutbox(const Snapshot& snapshot) {
  for (const auto& [seq, row] : *snapshot.outbox) {
    bool sound = true;
    if (row.kind == AssignmentKind::kStart) {
      const Job* job = snapshot.FindJob(row.fence.job_id);
      sound =
          job != nullptr && job->has_live_attempt() && job->current->number == row.fence.attempt;
    } else if (row.kind == AssignmentKind::kVerify || row.kind == AssignmentKind::kDelete) {
      sound = snapshot.FindCheckpoint(row.checkpoint_id) != nullptr;
    }
    if (!sound) return Contradiction(absl::StrCat("outbox row ", seq, " refers to nothing"));
  }
  return absl::OkStatus();
}

void Install(Loading loading, Snapshot& snapshot) {
  for (auto& [job_id, attempts] : loading.attempts) {
    Job& job = loading.jobs.at(job_id);
    for (Attempt& attempt : attempts) {
      if (job.current != nullptr) job.past.push_back(job.current);
      job.current = std::make_shared<const Attempt>(std::move(attempt));
    }
  }
  for (auto& [id, job] : loading.jobs) {
    snapshot.jobs.Put(id, std::make_shared<const Job>(std::move(job)));
  }
  auto ids = std::make_shared<std::map<std::string, uint64_t>>();
  for (auto& [name, worker] : loading.workers) {
    ids->emplace(name, worker.id);
    const uint64_t id = worker.id;
    snapshot.workers.Put(id, std::make_shared<const Worker>(std::move(worker)));
  }
  snapshot.worker_ids = std::move(ids);
  for (const auto& event : loading.events) snapshot.events.Put(event->sequence, event);
}

}  // namespace

absl::StatusOr<uint64_t> StateStore::GetMeta(const char* key) {
  SqliteStatement row = database_->Prepare("SELECT value FROM meta WHERE key = ?");
  row.Bind(key);
  MUSTER_ASSIGN_OR_RETURN(const bool found, row.Step());
  return found ? static_cast<uint64_t>(row.Int(0)) : 0;
}

absl::Status StateStore::LoadForgotten(Snapshot& snapshot) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t last_job, GetMeta("last_job"));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t last_checkpoint, GetMeta("last_checkpoint"));
  snapshot.jobs.SkipTo(last_job);
  snapshot.checkpoints.SkipTo(last_checkpoint);
  MUSTER_ASSIGN_OR_RETURN(snapshot.last_event, GetMeta("last_event"));
  MUSTER_ASSIGN_OR_RETURN(snapshot.forgotten_events, GetMeta("forgotten_events"));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t until, GetMeta("forgotten_until_ns"));
  if (until != 0) snapshot.forgotten_until = absl::FromUnixNanos(static_cast<int64_t>(until));
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
  if (!found) return Contradiction("the controller has no id");
  return row.Text(0);
}

absl::StatusOr<Snapshot> StateStore::Load(uint64_t term, absl::Duration now, absl::Time wall,
                                          uint64_t boot) {
  Snapshot snapshot;
  snapshot.term = term;
  snapshot.started = wall;
  MUSTER_ASSIGN_OR_RETURN(snapshot.controller_id, ControllerId());
  MUSTER_RETURN_IF_ERROR(LoadForgotten(snapshot));
  MUSTER_RETURN_IF_ERROR(LoadForgottenTime(*database_, snapshot));
  Loading loading;
  loading.newest = snapshot.forgotten_until;
  MUSTER_RETURN_IF_ERROR(LoadWorkers(*database_, now, wall, loading));
  MUSTER_RETURN_IF_ERROR(LoadJobs(*database_, loading));
  MUSTER_RETURN_IF_ERROR(LoadAttempts(*database_, now, loading));
  MUSTER_RETURN_IF_ERROR(LoadRanks(*database_, loading));
  MUSTER_RETURN_IF_ERROR(LoadCheckpoints(*database_, loading, snapshot));
  MUSTER_RETURN_IF_ERROR(CheckSources(loading, snapshot));
  MUSTER_RETURN_IF_ERROR(LoadEvents(*database_, loading, snapshot));
  MUSTER_RETURN_IF_ERROR(LoadOutbox(*database_, snapshot));
  MUSTER_RETURN_IF_ERROR(LoadRoots(*database_, snapshot));
  snapshot.ledger_origin = std::max(wall, loading.newest) - now;
  if (boot != 0) {
    MUSTER_ASSIGN_OR_RETURN(snapshot.ledger_origin, KeepOrigin(boot, snapshot.ledger_origin));
    // It never goes back, whatever the row says.
    snapshot.ledger_origin = std::max(snapshot.ledger_origin, loading.newest - now);
  }
  MUSTER_ASSIGN_OR_RETURN(auto projects, LoadProjects(*database_, snapshot.LedgerTime(now)));
  snapshot.projects = std::make_shared<const decltype(projects)>(std::move(projects));
  Install(std::move(loading), snapshot);
  Draft lists(snapshot);
  MUSTER_RETURN_IF_ERROR(CheckOutbox(snapshot));
  lists.RebuildJobLists();
  return *lists.Finish();
}

absl::StatusOr<std::map<uint64_t, JobState>> ReplayEvents(
    const std::vector<std::shared_ptr<const JobEvent>>& events, uint64_t forgotten) {
  std::map<uint64_t, JobState> states;
  uint64_t seen = 0;
  for (const auto& event : events) {
    // Those before it are there or forgotten.
    if (event->sequence > ++seen + forgotten) {
      return Contradiction(absl::StrCat("event ", seen + forgotten, " is missing"));
    }
    const auto [state, first] = states.emplace(event->job_id, event->to);
    if (!first && state->second != event->from) {
      return Contradiction(absl::StrCat("event ", event->sequence, " starts from ",
                                        JobStateName(event->from), ", but job ", event->job_id,
                                        " was ", JobStateName(state->second)));
    }
    state->second = event->to;
  }
  return states;
}

}  // namespace muster::controller
