#include "controller/store/history/history_store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "controller/model/ledger_rules.h"
#include "controller/store/history/history_schema.h"
#include "controller/store/job_rows.h"
#include "controller/store/ledger_codec.h"
#include "controller/store/row_codec.h"

namespace muster::controller {
namespace {

// Of a copy: so that who waits for the mutex gets it.
constexpr absl::Duration kBetweenPieces = absl::Milliseconds(1);

// Ids that one call of a walk looks at: some milliseconds.
constexpr uint64_t kMostLookedAt = 20'000;

absl::Status NotHere(uint64_t id) {
  return absl::NotFoundError(absl::StrCat("job ", id, ": it is not in history.db"));
}

// The first column of the first row; 0: no row, or NULL.
absl::StatusOr<uint64_t> FirstId(SqliteStatement row) {
  MUSTER_ASSIGN_OR_RETURN(const bool found, row.Step());
  return found ? static_cast<uint64_t>(row.Int(0)) : 0;
}

int64_t MaskOf(const std::vector<JobState>& states) {
  if (states.empty()) return -1;
  int64_t mask = 0;
  for (const JobState state : states) mask |= int64_t{1} << static_cast<int>(state);
  return mask;
}

// A job, or the first task of an array: its tasks are forgotten together.
uint64_t GroupOf(const Job& job) { return job.array.array_id == 0 ? job.id : job.array.array_id; }

}  // namespace

absl::StatusOr<std::unique_ptr<HistoryStore>> HistoryStore::Open(const SqliteOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                          SqliteDatabase::Open(options, HistoryMigrations()));
  std::unique_ptr<HistoryStore> store(new HistoryStore(std::move(database)));
  {
    MutexLock lock(store->mutex_);
    MUSTER_RETURN_IF_ERROR(store->Count());
  }
  // Also for what it reads: a broken table shows now, where the file can be set aside.
  MUSTER_RETURN_IF_ERROR(store->HighestIds().status());
  return store;
}

absl::Status HistoryStore::CopyTo(const std::string& path) {
  {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(database_->BeginCopy(path));
  }
  while (true) {
    {
      MutexLock lock(mutex_);
      MUSTER_ASSIGN_OR_RETURN(const bool whole, database_->StepCopy());
      if (whole) return absl::OkStatus();
    }
    absl::SleepFor(kBetweenPieces);
  }
}

template <typename Write>
absl::Status HistoryStore::Transact(Write write) {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  if (absl::Status status = write(); !status.ok()) {
    database_->Rollback();
    return status;
  }
  return database_->Commit();
}

absl::Status HistoryStore::Count() {
  MUSTER_ASSIGN_OR_RETURN(jobs_, FirstId(database_->Prepare("SELECT COUNT(*) FROM job_index")));
  MUSTER_ASSIGN_OR_RETURN(last_event_,
                          FirstId(database_->Prepare("SELECT MAX(sequence) FROM events")));
  SqliteStatement row = database_->Prepare("SELECT after_job, at_ns FROM beginning");
  MUSTER_ASSIGN_OR_RETURN(const bool begun, row.Step());
  if (!begun) return absl::OkStatus();
  began_after_job_ = static_cast<uint64_t>(row.Int(0));
  began_ns_ = row.Int(1);
  return absl::OkStatus();
}

absl::Status HistoryStore::Begin(uint64_t last_job, absl::Time now, uint64_t last_put) {
  MutexLock lock(mutex_);
  MUSTER_ASSIGN_OR_RETURN(const uint64_t puts,
                          FirstId(database_->Prepare("SELECT number FROM puts")));
  {
    SqliteStatement row = database_->Prepare("SELECT after_job FROM beginning");
    MUSTER_ASSIGN_OR_RETURN(const bool begun, row.Step());
    if (begun && puts >= last_put) return absl::OkStatus();
    if (begun) Log(LogLevel::kWarning, "history_older_than_state", {{"jobs", jobs_.load()}});
  }
  MUSTER_RETURN_IF_ERROR(Transact([&]() MUSTER_NO_ANALYSIS -> absl::Status {
    MUSTER_RETURN_IF_ERROR(database_->Prepare("DELETE FROM beginning").Run());
    SqliteStatement row =
        database_->Prepare("INSERT INTO beginning (after_job, at_ns) VALUES (?, ?)");
    MUSTER_RETURN_IF_ERROR(row.Bind(last_job).Bind(absl::ToUnixNanos(now)).Run());
    return database_->Prepare("UPDATE puts SET number = ?").Bind(last_put).Run();
  }));
  return Count();
}

absl::StatusOr<uint64_t> HistoryStore::Put(const std::vector<ArchivedJob>& jobs) {
  MutexLock lock(mutex_);
  size_t known = 0;
  uint64_t number = 0;
  uint64_t last_event = last_event_;
  std::map<uint64_t, uint64_t> groups;  // one job of each
  for (const ArchivedJob& archived : jobs) {
    groups.emplace(GroupOf(*archived.job), archived.job->id);
    SqliteStatement row = database_->Prepare("SELECT id FROM job_index WHERE id = ?");
    row.Bind(archived.job->id);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t id, FirstId(std::move(row)));
    if (id != 0) ++known;
    const auto& events = archived.job->events;
    if (!events.empty()) last_event = std::max(last_event, events.back()->sequence);
  }
  MUSTER_RETURN_IF_ERROR(Transact([&]() MUSTER_NO_ANALYSIS -> absl::Status {
    for (const ArchivedJob& archived : jobs) MUSTER_RETURN_IF_ERROR(PutRows(archived));
    for (const auto& [group, id] : groups) MUSTER_RETURN_IF_ERROR(UpdateForgettable(id));
    MUSTER_RETURN_IF_ERROR(database_->Prepare("UPDATE puts SET number = number + 1").Run());
    MUSTER_ASSIGN_OR_RETURN(number, FirstId(database_->Prepare("SELECT number FROM puts")));
    return absl::OkStatus();
  }));
  jobs_ += jobs.size() - known;
  last_event_ = last_event;
  MUSTER_RETURN_IF_ERROR(database_->CheckpointWhenLarge());
  return number;
}

absl::Status HistoryStore::PutRows(const ArchivedJob& archived) {
  const Job& job = *archived.job;
  MUSTER_RETURN_IF_ERROR(RemoveRows(job.id));
  MUSTER_RETURN_IF_ERROR(InsertWholeJob(*database_, job, archived.checkpoints));
  const bool is_restorable =
      std::any_of(archived.checkpoints.begin(), archived.checkpoints.end(),
                  [](const auto& checkpoint) { return checkpoint->restorable(); });
  if (is_restorable) {
    SqliteStatement row =
        database_->Prepare("INSERT INTO savers (project, name, job_id) VALUES (?, ?, ?)");
    row.Bind(job.settings->project).Bind(job.settings->name).Bind(job.id);
    MUSTER_RETURN_IF_ERROR(row.Run());
  }
  for (uint64_t checkpoint : job.settings->resume_from) {
    SqliteStatement row = database_->Prepare(
        "INSERT OR IGNORE INTO begun_from (checkpoint_id, job_id) VALUES (?, ?)");
    MUSTER_RETURN_IF_ERROR(row.Bind(checkpoint).Bind(job.id).Run());
  }
  SqliteStatement row = database_->Prepare(
      "INSERT INTO job_index (id, array_id, finished_at_ns, finished_ms, state, project)"
      " VALUES (?, ?, ?, ?, ?, ?)");
  row.Bind(job.id).Bind(job.array.array_id).Bind(absl::ToUnixNanos(FinishedAt(job)));
  BindTime(row, job.finished);
  row.Bind(static_cast<int>(job.state)).Bind(job.settings->project);
  return row.Run();
}

absl::StatusOr<std::vector<uint64_t>> HistoryStore::Ids(const char* sql, uint64_t id) {
  SqliteStatement row = database_->Prepare(sql);
  row.Bind(id);
  std::vector<uint64_t> ids;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return ids;
    ids.push_back(row.Int(0));
  }
}

absl::Status HistoryStore::UpdateForgettable(uint64_t id) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<uint64_t> tasks,
                          Ids("SELECT id FROM job_index WHERE array_id <> 0 AND array_id ="
                              " (SELECT array_id FROM job_index WHERE id = ?)",
                              id));
  if (tasks.empty()) tasks.push_back(id);
  bool is_kept = false;
  int64_t finished = std::numeric_limits<int64_t>::min();
  for (uint64_t task : tasks) {
    SqliteStatement row = database_->Prepare(
        "SELECT finished_at_ns, EXISTS(SELECT 1 FROM checkpoints WHERE job_id = ?1 AND"
        " (state <> ?2 OR EXISTS(SELECT 1 FROM begun_from WHERE checkpoint_id = checkpoints.id)))"
        " FROM job_index WHERE id = ?1");
    row.Bind(task).Bind(static_cast<int>(CheckpointState::kDeleted));
    MUSTER_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) continue;
    finished = std::max(finished, row.Int(0));
    is_kept = is_kept || row.Int(1) != 0;
  }
  for (uint64_t task : tasks) {
    SqliteStatement row =
        database_->Prepare("UPDATE job_index SET forgettable_from_ns = ? WHERE id = ?");
    if (is_kept) {
      row.BindNull();
    } else {
      row.Bind(finished);
    }
    MUSTER_RETURN_IF_ERROR(row.Bind(task).Run());
  }
  return absl::OkStatus();
}

absl::Status HistoryStore::RemoveRows(uint64_t id) {
  // Whoever refers to a row goes before it.
  for (const char* sql :
       {"DELETE FROM events WHERE job_id = ?", "DELETE FROM ranks WHERE job_id = ?",
        "DELETE FROM attempts WHERE job_id = ?", "DELETE FROM checkpoints WHERE job_id = ?",
        "DELETE FROM savers WHERE job_id = ?", "DELETE FROM begun_from WHERE job_id = ?",
        "DELETE FROM job_index WHERE id = ?", "DELETE FROM jobs WHERE id = ?"}) {
    MUSTER_RETURN_IF_ERROR(database_->Prepare(sql).Bind(id).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> HistoryStore::RemoveOldest(absl::Time horizon, size_t bound, size_t most) {
  MutexLock lock(mutex_);
  const size_t excess = jobs_ > bound ? jobs_ - bound : 0;
  std::vector<uint64_t> oldest;
  {
    SqliteStatement row = database_->Prepare(
        "SELECT id, array_id, forgettable_from_ns FROM job_index"
        " WHERE forgettable_from_ns IS NOT NULL ORDER BY forgettable_from_ns, array_id, id");
    for (int64_t array = 0;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
      if (!more) break;
      const bool is_next_task = array != 0 && row.Int(1) == array;
      if (!is_next_task) {
        const bool is_due = oldest.size() < excess || absl::FromUnixNanos(row.Int(2)) <= horizon;
        if (!is_due || oldest.size() >= most) break;
      }
      array = row.Int(1);
      oldest.push_back(row.Int(0));
    }
  }
  if (oldest.empty()) return 0;
  MUSTER_RETURN_IF_ERROR(Transact([&]() MUSTER_NO_ANALYSIS -> absl::Status {
    std::set<uint64_t> sources;
    for (uint64_t id : oldest) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<uint64_t> of_one,
                              Ids("SELECT checkpoints.job_id FROM begun_from JOIN checkpoints"
                                  " ON checkpoints.id = checkpoint_id WHERE begun_from.job_id = ?",
                                  id));
      sources.insert(of_one.begin(), of_one.end());
    }
    for (uint64_t id : oldest) MUSTER_RETURN_IF_ERROR(RemoveRows(id));
    for (uint64_t id : sources) MUSTER_RETURN_IF_ERROR(UpdateForgettable(id));
    return absl::OkStatus();
  }));
  jobs_ -= oldest.size();
  MUSTER_RETURN_IF_ERROR(database_->CheckpointWhenLarge());
  return oldest.size();
}

absl::StatusOr<HistoryStore::Highest> HistoryStore::HighestIds() {
  MutexLock lock(mutex_);
  Highest highest{.event = last_event_};
  MUSTER_ASSIGN_OR_RETURN(highest.job,
                          FirstId(database_->Prepare("SELECT MAX(id) FROM job_index")));
  MUSTER_ASSIGN_OR_RETURN(highest.checkpoint,
                          FirstId(database_->Prepare("SELECT MAX(id) FROM checkpoints")));
  return highest;
}

uint64_t HistoryStore::last_event() const {
  MutexLock lock(mutex_);
  return last_event_;
}

absl::StatusOr<ArchivedJob> HistoryStore::Find(uint64_t id) {
  MutexLock lock(mutex_);
  // Times since boot are those of live attempts; none is here.
  MUSTER_ASSIGN_OR_RETURN(JobRows rows, ReadJobs(*database_, id, id, absl::ZeroDuration()));
  const auto job = rows.jobs.find(id);
  if (job == rows.jobs.end()) return NotHere(id);
  if (!IsTerminal(job->second.state)) {
    return absl::DataLossError(absl::StrCat("history.db: job ", id, " has not ended"));
  }
  ArchivedJob archived{.job = std::make_shared<const Job>(std::move(job->second))};
  for (auto& [checkpoint_id, row] : rows.checkpoints) archived.checkpoints.push_back(row);
  return archived;
}

absl::StatusOr<uint64_t> HistoryStore::NewestOfName(absl::string_view name) {
  MutexLock lock(mutex_);
  SqliteStatement row = database_->Prepare("SELECT MAX(id) FROM jobs WHERE name = ?");
  row.Bind(name);
  return FirstId(std::move(row));
}

absl::StatusOr<uint64_t> HistoryStore::NewestResumable(absl::string_view project,
                                                       absl::string_view name, uint64_t below) {
  MutexLock lock(mutex_);
  SqliteStatement row = database_->Prepare(
      "SELECT MAX(job_id) FROM savers WHERE project = ? AND name = ? AND job_id < ?");
  row.Bind(project).Bind(name).Bind(below);
  return FirstId(std::move(row));
}

absl::StatusOr<std::vector<uint64_t>> HistoryStore::TasksOf(uint64_t array_id) {
  MutexLock lock(mutex_);
  return Ids("SELECT id FROM job_index WHERE array_id = ? AND array_id <> 0 ORDER BY id", array_id);
}

absl::StatusOr<uint64_t> HistoryStore::OfKey(absl::string_view owner, absl::string_view key) {
  MutexLock lock(mutex_);
  SqliteStatement row = database_->Prepare(
      "SELECT MAX(id) FROM jobs WHERE owner = ? AND idempotency_key = ?"
      " AND idempotency_key <> ''");
  row.Bind(owner).Bind(key);
  return FirstId(std::move(row));
}

absl::StatusOr<uint64_t> HistoryStore::OfCheckpoint(uint64_t checkpoint_id) {
  MutexLock lock(mutex_);
  SqliteStatement row = database_->Prepare("SELECT job_id FROM checkpoints WHERE id = ?");
  row.Bind(checkpoint_id);
  return FirstId(std::move(row));
}

absl::StatusOr<std::map<uint64_t, absl::Time>> HistoryStore::FinishedAmong(
    const std::vector<uint64_t>& ids) {
  constexpr uint64_t kRows = 1000;  // read at a time, from the next id on that is asked for
  std::map<uint64_t, absl::Time> finished;
  for (auto next = ids.begin(); next != ids.end();) {
    MutexLock lock(mutex_);
    SqliteStatement row = database_->Prepare(
        "SELECT id, finished_at_ns FROM job_index WHERE id >= ? ORDER BY id LIMIT ?");
    row.Bind(*next).Bind(kRows);
    uint64_t rows = 0;
    uint64_t id = 0;
    for (; rows < kRows; ++rows) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
      if (!more) break;
      id = row.Int(0);
      while (next != ids.end() && *next < id) ++next;
      if (next == ids.end()) return finished;
      if (*next == id) finished.emplace_hint(finished.end(), id, absl::FromUnixNanos(row.Int(1)));
    }
    if (rows < kRows) return finished;
    next = std::upper_bound(next, ids.end(), id);
  }
  return finished;
}

absl::StatusOr<bool> HistoryStore::WasPlacedOn(const RankKey& rank, absl::string_view worker) {
  MutexLock lock(mutex_);
  SqliteStatement row = database_->Prepare(
      "SELECT 1 FROM ranks JOIN attempts ON attempts.job_id = ranks.job_id AND number = attempt"
      " WHERE ranks.job_id = ? AND attempt = ? AND rank = ? AND generation = ? AND worker = ?");
  row.Bind(rank.job_id).Bind(rank.attempt).Bind(rank.rank).Bind(rank.generation).Bind(worker);
  return row.Step();
}

absl::StatusOr<ArchivedPage<uint64_t>> HistoryStore::List(const ArchivedJobsQuery& query) {
  MutexLock lock(mutex_);
  return ListLocked(query);
}

absl::StatusOr<ArchivedPage<uint64_t>> HistoryStore::ListLocked(const ArchivedJobsQuery& query) {
  ArchivedPage<uint64_t> page;
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  const int64_t below = query.below == 0 ? kEnd : static_cast<int64_t>(query.below);
  {
    // The inner rows are made one by one, so that a full page ends the walk.
    SqliteStatement row = database_->Prepare(
        "SELECT id FROM (SELECT * FROM job_index WHERE id < ?1 ORDER BY id DESC LIMIT ?2)"
        " WHERE ((1 << state) & ?3) <> 0 AND (?4 = '' OR project = ?4)"
        " AND (?5 IS NULL OR finished_ms >= ?5) AND (?6 IS NULL OR finished_ms < ?6) LIMIT ?7");
    row.Bind(below).Bind(kMostLookedAt).Bind(MaskOf(query.states)).Bind(query.project);
    BindTime(row, query.finished_from);
    BindTime(row, query.finished_before);
    row.Bind(static_cast<uint64_t>(query.most));
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
      if (!more) break;
      page.rows.push_back(row.Int(0));
    }
  }
  if (page.rows.size() == query.most) {
    page.looked_down_to = page.rows.back();
    return page;
  }
  SqliteStatement last =
      database_->Prepare("SELECT id FROM job_index WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?");
  last.Bind(below).Bind(kMostLookedAt - 1);
  MUSTER_ASSIGN_OR_RETURN(page.looked_down_to, FirstId(std::move(last)));
  return page;
}

absl::StatusOr<ArchivedPage<ArchivedLedger>> HistoryStore::Ledgers(const ArchivedJobsQuery& query) {
  MutexLock lock(mutex_);
  MUSTER_ASSIGN_OR_RETURN(const ArchivedPage<uint64_t> ids, ListLocked(query));
  ArchivedPage<ArchivedLedger> page{.rows = {}, .looked_down_to = ids.looked_down_to};
  for (uint64_t id : ids.rows) {
    SqliteStatement row =
        database_->Prepare("SELECT name, project, state, ledger FROM jobs WHERE id = ?");
    row.Bind(id);
    MUSTER_RETURN_IF_ERROR(row.Step().status());
    ArchivedLedger ledger{.id = id,
                          .name = row.Text(0),
                          .project = row.Text(1),
                          .state = static_cast<JobState>(row.Int(2)),
                          .ledger = {}};
    MUSTER_ASSIGN_OR_RETURN(ledger.ledger, DecodeLedger(row.Text(3)));
    page.rows.push_back(std::move(ledger));
  }
  return page;
}

absl::StatusOr<std::vector<std::shared_ptr<const JobEvent>>> HistoryStore::EventsAfter(
    uint64_t sequence, size_t most) {
  MutexLock lock(mutex_);
  return ReadEventsAfter(*database_, sequence, most);
}

absl::StatusOr<std::vector<uint64_t>> HistoryStore::NewestEvents(size_t most) {
  MutexLock lock(mutex_);
  SqliteStatement row =
      database_->Prepare("SELECT sequence FROM events ORDER BY sequence DESC LIMIT ?");
  row.Bind(static_cast<uint64_t>(most));
  std::vector<uint64_t> sequences;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return sequences;
    sequences.push_back(row.Int(0));
  }
}

}  // namespace muster::controller
