#include "controller/store/job_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/store/ledger_codec.h"
#include "controller/store/row_codec.h"
#include "controller/store/settings_codec.h"

namespace muster::controller {
namespace {

using Attempts = std::map<uint64_t, std::vector<Attempt>>;  // by job, oldest first

// Which jobs are read.
struct Range {
  uint64_t first = 0;
  uint64_t last = 0;

  SqliteStatement Bound(SqliteStatement row) const {
    row.Bind(first).Bind(last);
    return row;
  }
};

// The tasks of an array were submitted together and stand together: they share their settings, as
// they did before they were stored.
class SharedSettings {
 public:
  struct Columns {
    std::string settings;
    std::string checkpoint_root;
    std::string spec;
    std::string written_spec;
    std::string spec_json;  // of an older Muster, which had no `spec`
    bool operator==(const Columns&) const = default;
  };

  absl::StatusOr<std::shared_ptr<const JobSettings>> Get(Columns columns) {
    if (last_ != nullptr && columns == columns_) return last_;
    MUSTER_ASSIGN_OR_RETURN(JobSettings settings, DecodeSettings(columns.settings));
    settings.checkpoint_root = columns.checkpoint_root;
    settings.spec = columns.spec.empty() ? columns.spec_json : columns.spec;
    settings.written_spec = columns.written_spec;
    columns_ = std::move(columns);
    last_ = std::make_shared<const JobSettings>(std::move(settings));
    return last_;
  }

 private:
  Columns columns_;
  std::shared_ptr<const JobSettings> last_;
};

absl::Status ReadOwnRows(SqliteDatabase& db, const Range& range, JobRows& rows) {
  SqliteStatement row = range.Bound(db.Prepare(
      "SELECT id, owner, idempotency_key, checkpoint_root, spec_json, array_id, array_index,"
      " array_at_a_time, settings, held, suspending, state, reason, message, submitted_ms,"
      " started_ms, finished_ms, attempt, restarts, restarts_in_row, failure_class, phase, step,"
      " total_steps, epoch, memory_bytes, memory_peak_bytes, best_validation_accuracy, latest,"
      " results, charged, requeue_id, requeued_after, ledger, spec, written_spec,"
      " folder_tag FROM jobs WHERE id BETWEEN ? AND ? ORDER BY id"));
  SharedSettings shared;
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
    MUSTER_ASSIGN_OR_RETURN(job.settings, shared.Get({.settings = row.Text(8),
                                                      .checkpoint_root = row.Text(3),
                                                      .spec = row.Text(34),
                                                      .written_spec = row.Text(35),
                                                      .spec_json = row.Text(4)}));
    job.folder_tag = row.Text(36);
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
    rows.jobs.emplace(job.id, std::move(job));
  }
}

absl::Status ReadAttempts(SqliteDatabase& db, const Range& range, absl::Duration now,
                          Attempts& by_job) {
  SqliteStatement row = range.Bound(db.Prepare(
      "SELECT job_id, number, generation, term, started_ms, ended_ms, failure_class, cause, reason,"
      " reached_running, save_requested, first_step, last_step, resume, yielded_to, failed_rank,"
      " stake_slot_seconds, lost_slot_seconds, missing, held_from_ns, held_until_ns FROM attempts"
      " WHERE job_id BETWEEN ? AND ? ORDER BY job_id, number"));
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
    attempt.preempted_by = row.Int(14);
    attempt.failed_rank = static_cast<int32_t>(row.Int(15));
    attempt.stake_slot_seconds = row.Int(16);
    attempt.lost_slot_seconds = row.Int(17);
    attempt.missing = static_cast<Missing>(row.Int(18));
    attempt.held_from = ReadNanos(row, 19, absl::InfinitePast());
    attempt.held_until = ReadNanos(row, 20, absl::InfiniteFuture());
    std::vector<Attempt>& attempts = by_job[attempt.job_id];
    attempts.push_back(std::move(attempt));
    if (attempts.back().number != attempts.size()) {
      return Contradiction(db, absl::StrCat("job ", attempts.back().job_id, " lacks an attempt"));
    }
  }
}

absl::Status ReadRanks(SqliteDatabase& db, const Range& range, Attempts& by_job) {
  SqliteStatement row = range.Bound(db.Prepare(
      "SELECT job_id, attempt, rank, worker, incarnation, slots, local_rank, state, succeeded,"
      " holds_slots, exit_code, signal, pid, last_step, held_from_ns, held_until_ns FROM ranks"
      " WHERE job_id BETWEEN ? AND ? ORDER BY job_id, attempt, rank"));
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    const uint64_t job_id = row.Int(0);
    const uint64_t number = row.Int(1);
    const auto attempts = by_job.find(job_id);
    if (attempts == by_job.end() || number == 0 || number > attempts->second.size()) {
      return Contradiction(db, absl::StrCat("job ", job_id, " has a rank without an attempt"));
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
      return Contradiction(db, absl::StrCat("job ", job_id, " lacks a rank"));
    }
    ranks.push_back(std::move(rank));
  }
}

absl::Status ReadCheckpoints(SqliteDatabase& db, const Range& range, JobRows& rows) {
  SqliteStatement row = range.Bound(db.Prepare(
      "SELECT id, job_id, step, attempt, state, path, bytes, manifest_sha256, best, epoch, metrics,"
      " created_ms, verified_ms, verdicts, message, created_at_ns, doubt_worker, doubt_message,"
      " doubt_missing, pinned_by, removed_by FROM checkpoints"
      " WHERE job_id BETWEEN ? AND ? ORDER BY id"));
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
    checkpoint->pinned_by = row.Text(19);
    checkpoint->removed_by = row.Text(20);
    const auto job = rows.jobs.find(checkpoint->job_id);
    if (job == rows.jobs.end()) {
      return Contradiction(db, absl::StrCat("checkpoint ", checkpoint->id, " has no job"));
    }
    job->second.checkpoints.push_back(checkpoint->id);
    const uint64_t id = checkpoint->id;
    rows.checkpoints.emplace(id, std::move(checkpoint));
  }
}

#define MUSTER_EVENT_COLUMNS \
  "sequence, job_id, time_ms, from_state, to_state, reason, actor, message, attempt, at_ns"

std::shared_ptr<const JobEvent> EventOf(const SqliteStatement& row) {
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
  return event;
}

absl::Status ReadEvents(SqliteDatabase& db, const Range& range, JobRows& rows) {
  SqliteStatement row =
      range.Bound(db.Prepare("SELECT " MUSTER_EVENT_COLUMNS
                             " FROM events WHERE job_id BETWEEN ? AND ? ORDER BY sequence"));
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    std::shared_ptr<const JobEvent> event = EventOf(row);
    const auto job = rows.jobs.find(event->job_id);
    if (job == rows.jobs.end()) {
      return Contradiction(db, absl::StrCat("event ", event->sequence, " has no job"));
    }
    job->second.events.push_back(event);
    rows.events.push_back(std::move(event));
  }
}

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

absl::Status Contradiction(const SqliteDatabase& db, const std::string& what) {
  const std::string file = db.path().substr(db.path().rfind('/') + 1);
  return absl::DataLossError(
      absl::StrCat(file, " contradicts itself: ", what, "; restore it from a backup"));
}

absl::StatusOr<JobRows> ReadJobs(SqliteDatabase& db, uint64_t first, uint64_t last,
                                 absl::Duration now) {
  const Range range{first, last};
  JobRows rows;
  Attempts attempts;
  MUSTER_RETURN_IF_ERROR(ReadOwnRows(db, range, rows));
  MUSTER_RETURN_IF_ERROR(ReadAttempts(db, range, now, attempts));
  MUSTER_RETURN_IF_ERROR(ReadRanks(db, range, attempts));
  for (auto& [job_id, of_job] : attempts) {
    const auto job = rows.jobs.find(job_id);
    if (job == rows.jobs.end()) {
      return Contradiction(db, absl::StrCat("attempts of job ", job_id, " have no job"));
    }
    for (Attempt& attempt : of_job) {
      if (job->second.current != nullptr) job->second.past.push_back(job->second.current);
      job->second.current = std::make_shared<const Attempt>(std::move(attempt));
    }
  }
  MUSTER_RETURN_IF_ERROR(ReadCheckpoints(db, range, rows));
  MUSTER_RETURN_IF_ERROR(ReadEvents(db, range, rows));
  return rows;
}

absl::StatusOr<std::vector<std::shared_ptr<const JobEvent>>> ReadEventsAfter(SqliteDatabase& db,
                                                                             uint64_t sequence,
                                                                             size_t most) {
  SqliteStatement row = db.Prepare("SELECT " MUSTER_EVENT_COLUMNS
                                   " FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?");
  row.Bind(sequence).Bind(static_cast<uint64_t>(most));
  std::vector<std::shared_ptr<const JobEvent>> events;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return events;
    events.push_back(EventOf(row));
  }
}

absl::Status InsertJobRow(SqliteDatabase& db, const Job& job) {
  SqliteStatement row = db.Prepare(
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

absl::Status UpdateJobRow(SqliteDatabase& db, const Job& job) {
  SqliteStatement row = db.Prepare(
      "UPDATE jobs SET settings = ?, held = ?, suspending = ?, requeue_id = ?,"
      " requeued_after = ?, state = ?, reason = ?, message = ?,"
      " submitted_ms = ?, started_ms = ?, finished_ms = ?, attempt = ?, restarts = ?,"
      " restarts_in_row = ?, failure_class = ?, phase = ?, step = ?, total_steps = ?, epoch = ?,"
      " memory_bytes = ?, memory_peak_bytes = ?, best_validation_accuracy = ?, latest = ?,"
      " results = ?, charged = ?, ledger = ? WHERE id = ?");
  BindCourse(row, job);
  return row.Bind(job.id).Run();
}

absl::Status PutAttempt(SqliteDatabase& db, const Attempt& attempt,
                        const std::set<uint32_t>& ranks) {
  {
    // Not INSERT OR REPLACE: that would delete the row which the ranks refer to.
    SqliteStatement row = db.Prepare(
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
        .Bind(attempt.preempted_by)
        .Bind(attempt.failed_rank)
        .Bind(attempt.stake_slot_seconds)
        .Bind(attempt.lost_slot_seconds)
        .Bind(static_cast<int>(attempt.missing));
    BindNanos(row, attempt.held_from);
    BindNanos(row, attempt.held_until);
    MUSTER_RETURN_IF_ERROR(row.Run());
  }
  for (uint32_t index : ranks) {
    const Rank& rank = attempt.ranks[index];
    SqliteStatement row = db.Prepare(
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

absl::Status PutCheckpoint(SqliteDatabase& db, const Checkpoint& checkpoint) {
  SqliteStatement row = db.Prepare(
      "INSERT OR REPLACE INTO checkpoints (id, job_id, step, attempt, state, path, bytes,"
      " manifest_sha256, best, epoch, metrics, created_ms, verified_ms, verdicts, message,"
      " created_at_ns, doubt_worker, doubt_message, doubt_missing, pinned_by, removed_by)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
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
  row.Bind(checkpoint.pinned_by).Bind(checkpoint.removed_by);
  return row.Run();
}

absl::Status InsertEvent(SqliteDatabase& db, const JobEvent& event) {
  SqliteStatement row = db.Prepare(
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

absl::Status InsertWholeJob(SqliteDatabase& db, const Job& job,
                            const std::vector<std::shared_ptr<const Checkpoint>>& checkpoints) {
  MUSTER_RETURN_IF_ERROR(InsertJobRow(db, job));
  const auto put = [&db](const Attempt& attempt) {
    std::set<uint32_t> ranks;
    for (const Rank& rank : attempt.ranks) ranks.insert(rank.rank);
    return PutAttempt(db, attempt, ranks);
  };
  for (const auto& attempt : job.past) MUSTER_RETURN_IF_ERROR(put(*attempt));
  if (job.current != nullptr) MUSTER_RETURN_IF_ERROR(put(*job.current));
  for (const auto& row : checkpoints) MUSTER_RETURN_IF_ERROR(PutCheckpoint(db, *row));
  for (const auto& event : job.events) MUSTER_RETURN_IF_ERROR(InsertEvent(db, *event));
  return absl::OkStatus();
}

absl::Status DeleteJob(SqliteDatabase& db, const Job& job) {
  // Whoever refers to a row goes before it. Events are found by their sequences alone.
  for (const auto& event : job.events) {
    MUSTER_RETURN_IF_ERROR(
        db.Prepare("DELETE FROM events WHERE sequence = ?").Bind(event->sequence).Run());
  }
  for (const char* sql :
       {"DELETE FROM ranks WHERE job_id = ?", "DELETE FROM attempts WHERE job_id = ?",
        "DELETE FROM checkpoints WHERE job_id = ?", "DELETE FROM jobs WHERE id = ?"}) {
    MUSTER_RETURN_IF_ERROR(db.Prepare(sql).Bind(job.id).Run());
  }
  return absl::OkStatus();
}

}  // namespace muster::controller
