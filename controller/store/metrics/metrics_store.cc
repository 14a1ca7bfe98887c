#include "controller/store/metrics/metrics_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/protocol/value_name.h"
#include "controller/store/metrics/metrics_schema.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxNamesPerJob = 4096;  // over all ranks
constexpr size_t kMaxNames = 16384;       // over all jobs
constexpr uint64_t kMaxPointsPerRow = 4096;
constexpr size_t kMaxCachedMarks = 65536;
constexpr int kRowsPerRemoval = 256;

// Of the job ?1, ?2 rows where there may be many; each gives a row for each that it changed.
constexpr char kRemovePoints[] =
    "DELETE FROM points WHERE id IN (SELECT id FROM points WHERE job = ?1 LIMIT ?2) RETURNING 1";
constexpr char kRemoveRollups[] =
    "DELETE FROM rollups WHERE id IN (SELECT id FROM rollups WHERE job = ?1 LIMIT ?2) RETURNING 1";
constexpr char kRemoveLogs[] =
    "DELETE FROM logs WHERE id IN (SELECT id FROM logs WHERE job = ?1 LIMIT ?2) RETURNING 1";
constexpr char kRemoveNames[] = "DELETE FROM job_names WHERE job = ?1 AND ?2 RETURNING 1";
constexpr char kNoteEmptied[] =
    "UPDATE known_jobs SET has_rows = 0 WHERE job = ?1 AND ?2 RETURNING 1";
constexpr char kRemoveRankMarks[] =
    "DELETE FROM rank_marks WHERE (job, attempt, generation, rank) IN (SELECT job, attempt, "
    "generation, rank FROM rank_marks WHERE job = ?1 LIMIT ?2) RETURNING 1";
constexpr char kRemoveLogMarks[] =
    "DELETE FROM log_marks WHERE (job, attempt, generation, rank, is_stderr) IN (SELECT job, "
    "attempt, generation, rank, is_stderr FROM log_marks WHERE job = ?1 LIMIT ?2) RETURNING 1";
constexpr char kRemoveGaps[] =
    "DELETE FROM gaps WHERE (job, attempt, generation, rank, kind, first, last) IN (SELECT job, "
    "attempt, generation, rank, kind, first, last FROM gaps WHERE job = ?1 LIMIT ?2) RETURNING 1";
constexpr char kRemoveJob[] = "DELETE FROM known_jobs WHERE job = ?1 AND ?2 RETURNING 1";

}  // namespace

void IngestCounts::Add(const IngestCounts& other) {
  points += other.points;
  log_bytes += other.log_bytes;
  duplicate_records += other.duplicate_records;
  duplicate_log_bytes += other.duplicate_log_bytes;
  gaps += other.gaps;
  dropped_log_bytes += other.dropped_log_bytes;
  dropped_points += other.dropped_points;
  refused_points += other.refused_points;
  refused_records += other.refused_records;
}

absl::StatusOr<std::unique_ptr<MetricsStore>> MetricsStore::Open(const std::string& path,
                                                                 uint64_t max_bytes,
                                                                 const std::string& vfs) {
  SqliteOptions options{.path = path, .max_bytes = max_bytes};
  options.vfs = vfs;
  MUSTER_ASSIGN_OR_RETURN(auto db, SqliteDatabase::Open(options, kMetricsMigrations));
  return std::unique_ptr<MetricsStore>(new MetricsStore(std::move(db)));
}

absl::Status MetricsStore::Append(const std::vector<const MetricsBatch*>& batches,
                                  IngestCounts& counts) {
  if (marks_.size() + log_marks_.size() + noted_jobs_.size() > kMaxCachedMarks ||
      job_names_.size() > kMaxCachedMarks) {
    ForgetCaches();
  }
  IngestCounts group;
  absl::Status status = db_->Begin();
  if (status.ok()) {
    status = AppendInTransaction(batches, group);
    if (status.ok()) {
      status = db_->Commit();
    } else {
      db_->Rollback();
    }
  }
  pending_.clear();
  changed_marks_.clear();
  changed_log_marks_.clear();
  if (!status.ok()) {
    ForgetCaches();
    log_budget_.Rollback();
    point_budget_.Rollback();
    rollup_budget_.Rollback();
    return status;
  }
  log_budget_.Commit();
  point_budget_.Commit();
  rollup_budget_.Commit();
  counts.Add(group);
  return absl::OkStatus();
}

absl::Status MetricsStore::AppendInTransaction(const std::vector<const MetricsBatch*>& batches,
                                               IngestCounts& counts) {
  for (const MetricsBatch* batch : batches) {
    for (const PointRecord& record : batch->points)
      MUSTER_RETURN_IF_ERROR(AppendRecord(record, counts));
    for (const LogChunk& chunk : batch->logs) MUSTER_RETURN_IF_ERROR(AppendChunk(chunk, counts));
    for (const Gap& gap : batch->gaps) MUSTER_RETURN_IF_ERROR(AppendGap(gap, counts));
  }
  for (const auto& [key, row] : pending_) MUSTER_RETURN_IF_ERROR(WriteRow(key, row, counts));
  return WriteMarks();
}

absl::Status MetricsStore::AppendRecord(const PointRecord& record, IngestCounts& counts) {
  MUSTER_ASSIGN_OR_RETURN(Marks * marks, FindMarks(record.key));
  if (record.seq <= marks->last_seq) {
    ++counts.duplicate_records;
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(NoteJob(record.key.job_id));
  if (record.seq > marks->last_seq + 1) {
    MUSTER_RETURN_IF_ERROR(
        RecordGap(record.key, kMetricGap, marks->last_seq + 1, record.seq - 1, counts));
  }
  marks->last_seq = record.seq;
  changed_marks_.insert(record.key);
  PendingRow& row = pending_[record.key];
  for (const Point& point : record.points) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t name_id,
                            NameId(record.key.job_id, record.key.rank, point.name));
    if (name_id == 0 || point.step < 0) {
      ++counts.refused_points;
      continue;
    }
    row.points[name_id].push_back({point.step, point.time_ms, point.value});
    row.min_step = row.count == 0 ? point.step : std::min(row.min_step, point.step);
    row.max_step = row.count == 0 ? point.step : std::max(row.max_step, point.step);
    ++row.count;
    ++counts.points;
    if (!marks->has_step || point.step < marks->first_step) {
      marks->first_step = point.step;
      marks->has_step = true;
    }
  }
  if (row.first_seq == 0) row.first_seq = record.seq;
  row.last_seq = record.seq;
  if (row.count >= kMaxPointsPerRow) {
    MUSTER_RETURN_IF_ERROR(WriteRow(record.key, row, counts));
    pending_.erase(record.key);
  }
  return absl::OkStatus();
}

absl::Status MetricsStore::AppendChunk(const LogChunk& chunk, IngestCounts& counts) {
  const LogKey key{chunk.key, chunk.is_stderr};
  MUSTER_ASSIGN_OR_RETURN(uint64_t * next_offset, FindLogMark(key));
  const uint64_t end = chunk.offset + chunk.text.size();
  if (end < chunk.offset || end > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    ++counts.refused_records;
    return absl::OkStatus();
  }
  if (end <= *next_offset) {
    counts.duplicate_log_bytes += chunk.text.size();
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(NoteJob(chunk.key.job_id));
  if (chunk.offset > *next_offset) {
    MUSTER_RETURN_IF_ERROR(RecordGap(chunk.key, chunk.is_stderr ? kStderrGap : kStdoutGap,
                                     *next_offset, chunk.offset - 1, counts));
  }
  const uint64_t skip = chunk.offset < *next_offset ? *next_offset - chunk.offset : 0;
  counts.duplicate_log_bytes += skip;
  const absl::string_view text = absl::string_view(chunk.text).substr(skip);
  MUSTER_RETURN_IF_ERROR(log_budget_.Add(chunk.key.job_id, text.size(), counts));
  SqliteStatement insert = db_->Prepare(
      "INSERT INTO logs(job, attempt, generation, rank, is_stderr, offset, text, written_ms) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(chunk.key.job_id);
  insert.Bind(chunk.key.attempt);
  insert.Bind(chunk.key.generation);
  insert.Bind(chunk.key.rank);
  insert.Bind(chunk.is_stderr ? 1 : 0);
  insert.Bind(chunk.offset + skip);
  insert.BindBlob(text);
  insert.Bind(chunk.written_ms);
  MUSTER_RETURN_IF_ERROR(insert.Run());
  counts.log_bytes += text.size();
  *next_offset = end;
  changed_log_marks_.insert(key);
  return absl::OkStatus();
}

absl::Status MetricsStore::AppendGap(const Gap& gap, IngestCounts& counts) {
  MUSTER_RETURN_IF_ERROR(NoteJob(gap.key.job_id));
  if (gap.first_seq != 0 && gap.first_seq <= gap.last_seq) {
    MUSTER_ASSIGN_OR_RETURN(Marks * marks, FindMarks(gap.key));
    if (gap.last_seq > marks->last_seq) {
      const uint64_t first = std::max(gap.first_seq, marks->last_seq + 1);
      MUSTER_RETURN_IF_ERROR(RecordGap(gap.key, kMetricGap, first, gap.last_seq, counts));
      marks->last_seq = gap.last_seq;
      changed_marks_.insert(gap.key);
    }
  }
  if (gap.log_bytes != 0) {
    MUSTER_RETURN_IF_ERROR(RecordGap(gap.key, kSpoolLogGap, 0, gap.log_bytes, counts));
  }
  return absl::OkStatus();
}

absl::Status MetricsStore::WriteRow(const RankKey& key, const PendingRow& row,
                                    IngestCounts& counts) {
  if (row.count == 0) return absl::OkStatus();
  const std::string packed = PackPoints(row.points);
  MUSTER_RETURN_IF_ERROR(point_budget_.Add(key.job_id, packed.size(), counts));
  SqliteStatement insert = db_->Prepare(
      "INSERT INTO points(job, rank, attempt, generation, min_step, "
      "max_step, first_seq, last_seq, count, packed) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
  insert.Bind(key.job_id);
  insert.Bind(key.rank);
  insert.Bind(key.attempt);
  insert.Bind(key.generation);
  insert.Bind(row.min_step);
  insert.Bind(row.max_step);
  insert.Bind(row.first_seq);
  insert.Bind(row.last_seq);
  insert.Bind(row.count);
  insert.BindBlob(packed);
  MUSTER_RETURN_IF_ERROR(insert.Step().status());
  return rollup_.NoteRow(key, insert.Int(0), counts);
}

absl::Status MetricsStore::WriteMarks() {
  for (const RankKey& key : changed_marks_) {
    const Marks& marks = marks_[key];
    SqliteStatement upsert = db_->Prepare(
        "INSERT INTO rank_marks(job, attempt, generation, rank, last_seq, first_step)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET last_seq = ?5, first_step = ?6");
    upsert.Bind(key.job_id);
    upsert.Bind(key.attempt);
    upsert.Bind(key.generation);
    upsert.Bind(key.rank);
    upsert.Bind(marks.last_seq);
    if (marks.has_step) upsert.Bind(marks.first_step);
    MUSTER_RETURN_IF_ERROR(upsert.Run());
  }
  for (const LogKey& key : changed_log_marks_) {
    SqliteStatement upsert = db_->Prepare(
        "INSERT INTO log_marks(job, attempt, generation, rank, is_stderr, next_offset)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET next_offset = ?6");
    upsert.Bind(key.rank.job_id);
    upsert.Bind(key.rank.attempt);
    upsert.Bind(key.rank.generation);
    upsert.Bind(key.rank.rank);
    upsert.Bind(key.is_stderr ? 1 : 0);
    upsert.Bind(log_marks_[key]);
    MUSTER_RETURN_IF_ERROR(upsert.Run());
  }
  return absl::OkStatus();
}

absl::Status MetricsStore::RecordGap(const RankKey& key, int kind, uint64_t first, uint64_t last,
                                     IngestCounts& counts) {
  SqliteStatement insert = db_->Prepare(
      "INSERT OR IGNORE INTO gaps(job, attempt, generation, rank, kind, "
      "first, last) VALUES(?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(key.job_id);
  insert.Bind(key.attempt);
  insert.Bind(key.generation);
  insert.Bind(key.rank);
  insert.Bind(kind);
  insert.Bind(first);
  insert.Bind(last);
  ++counts.gaps;
  return insert.Run();
}

absl::Status MetricsStore::NoteJob(uint64_t job_id) {
  if (!noted_jobs_.insert(job_id).second) return absl::OkStatus();
  SqliteStatement insert = db_->Prepare(
      "INSERT INTO known_jobs(job, has_rows) VALUES(?, 1) ON CONFLICT DO UPDATE SET has_rows = 1");
  insert.Bind(job_id);
  return insert.Run();
}

absl::StatusOr<MetricsStore::Marks*> MetricsStore::FindMarks(const RankKey& key) {
  const auto [found, is_new] = marks_.try_emplace(key);
  if (!is_new) return &found->second;
  SqliteStatement select = db_->Prepare(
      "SELECT last_seq, first_step FROM rank_marks WHERE job = ? AND "
      "attempt = ? AND generation = ? AND rank = ?");
  select.Bind(key.job_id);
  select.Bind(key.attempt);
  select.Bind(key.generation);
  select.Bind(key.rank);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  if (has_row) {
    found->second.last_seq = select.Int(0);
    found->second.has_step = !select.IsNull(1);
    if (found->second.has_step) found->second.first_step = select.Int(1);
  }
  return &found->second;
}

absl::StatusOr<uint64_t*> MetricsStore::FindLogMark(const LogKey& key) {
  const auto [found, is_new] = log_marks_.try_emplace(key);
  if (!is_new) return &found->second;
  SqliteStatement select = db_->Prepare(
      "SELECT next_offset FROM log_marks WHERE job = ? AND attempt = ? "
      "AND generation = ? AND rank = ? AND is_stderr = ?");
  select.Bind(key.rank.job_id);
  select.Bind(key.rank.attempt);
  select.Bind(key.rank.generation);
  select.Bind(key.rank.rank);
  select.Bind(key.is_stderr ? 1 : 0);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  if (has_row) found->second = select.Int(0);
  return &found->second;
}

absl::StatusOr<MetricsStore::NamesOfJob*> MetricsStore::FindNames(uint64_t job_id) {
  const auto [job, is_new] = job_names_.try_emplace(job_id);
  if (!is_new) return &job->second;
  SqliteStatement select = db_->Prepare("SELECT rank, name_id FROM job_names WHERE job = ?");
  select.Bind(job_id);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) return &job->second;
    job->second.emplace(static_cast<uint32_t>(select.Int(0)), select.Int(1));
  }
}

absl::StatusOr<uint64_t> MetricsStore::FindName(const std::string& name, size_t most) {
  if (const auto known = name_ids_.find(name); known != name_ids_.end()) return known->second;
  if (!IsValueName(name)) return 0;
  MUSTER_ASSIGN_OR_RETURN(uint64_t id, FindOrAddName(*db_, name, most));
  if (id == 0 && most > 0 && std::exchange(names_may_go_, false)) {
    MUSTER_RETURN_IF_ERROR(RemoveUnusedNames(*db_));
    name_ids_.clear();
    MUSTER_ASSIGN_OR_RETURN(id, FindOrAddName(*db_, name, most));
  }
  if (id != 0) name_ids_.emplace(name, id);
  return id;
}

absl::StatusOr<uint64_t> MetricsStore::NameId(uint64_t job_id, uint32_t rank,
                                              const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(NamesOfJob * of_job, FindNames(job_id));
  const bool is_full = of_job->size() >= kMaxNamesPerJob;
  MUSTER_ASSIGN_OR_RETURN(const uint64_t id, FindName(name, is_full ? 0 : kMaxNames));
  const std::pair<uint32_t, uint64_t> entry(rank, id);
  if (id == 0 || of_job->count(entry) != 0) return id;
  if (is_full) return 0;
  SqliteStatement insert =
      db_->Prepare("INSERT INTO job_names(job, rank, name_id) VALUES(?, ?, ?)");
  insert.Bind(job_id);
  insert.Bind(rank);
  insert.Bind(id);
  MUSTER_RETURN_IF_ERROR(insert.Run());
  of_job->insert(entry);
  return id;
}

void MetricsStore::ForgetCaches() {
  marks_.clear();
  log_marks_.clear();
  name_ids_.clear();
  job_names_.clear();
  noted_jobs_.clear();
  names_may_go_ = true;
  rollup_.Forget();
}

absl::StatusOr<bool> MetricsStore::ReadOn(PointReading& reading) { return reading.Turn(*db_); }

absl::StatusOr<bool> MetricsStore::ReadOn(LogReading& reading) { return reading.Turn(*db_); }

absl::StatusOr<std::vector<MetricsStore::StoredJob>> MetricsStore::StoredJobs() {
  SqliteStatement select = db_->Prepare("SELECT job, has_rows FROM known_jobs ORDER BY job");
  std::vector<StoredJob> jobs;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
    if (!has_row) return jobs;
    jobs.push_back({static_cast<uint64_t>(select.Int(0)), select.Int(1) != 0});
  }
}

absl::StatusOr<uint64_t> MetricsStore::UsedBytes() {
  SqliteStatement select = db_->Prepare(
      "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, "
      "pragma_freelist_count, pragma_page_size");
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? select.Int(0) : 0;
}

absl::StatusOr<bool> MetricsStore::RemoveSome(uint64_t job_id, bool forgotten) {
  noted_jobs_.erase(job_id);
  job_names_.erase(job_id);
  log_budget_.Forget(job_id);
  point_budget_.Forget(job_id);
  names_may_go_ = true;
  rollup_budget_.Forget(job_id);
  rollup_.Forget(job_id);
  for (const char* sql : {kRemovePoints, kRemoveRollups, kRemoveLogs}) {
    MUSTER_ASSIGN_OR_RETURN(const bool removed_any, RemoveRows(sql, job_id));
    if (removed_any) return true;
  }
  MUSTER_RETURN_IF_ERROR(RemoveRows(kRemoveNames, job_id).status());
  if (!forgotten) {
    MUSTER_RETURN_IF_ERROR(RemoveRows(kNoteEmptied, job_id).status());
    return false;
  }
  marks_.erase(marks_.lower_bound(RankKey{job_id}), marks_.lower_bound(RankKey{job_id + 1}));
  log_marks_.erase(log_marks_.lower_bound(LogKey{RankKey{job_id}}),
                   log_marks_.lower_bound(LogKey{RankKey{job_id + 1}}));
  for (const char* sql : {kRemoveRankMarks, kRemoveLogMarks, kRemoveGaps}) {
    MUSTER_ASSIGN_OR_RETURN(const bool removed_any, RemoveRows(sql, job_id));
    if (removed_any) return true;
  }
  MUSTER_RETURN_IF_ERROR(RemoveRows(kRemoveJob, job_id).status());
  return false;
}

absl::StatusOr<bool> MetricsStore::RemoveRows(const char* sql, uint64_t job_id) {
  MUSTER_RETURN_IF_ERROR(db_->Begin());
  absl::StatusOr<bool> has_row = false;
  bool removed_any = false;
  {
    SqliteStatement remove = db_->Prepare(sql);
    remove.Bind(job_id).Bind(kRowsPerRemoval);
    do {
      has_row = remove.Step();
      removed_any |= has_row.ok() && *has_row;
    } while (has_row.ok() && *has_row);
  }
  if (!has_row.ok()) {
    db_->Rollback();
    return has_row.status();
  }
  MUSTER_RETURN_IF_ERROR(db_->Commit());
  return removed_any;
}

absl::Status MetricsStore::SetMaxBytes(uint64_t max_bytes) { return db_->SetMaxBytes(max_bytes); }

absl::Status MetricsStore::BeginCopy(const std::string& path) { return db_->BeginCopy(path); }

absl::StatusOr<bool> MetricsStore::StepCopy() { return db_->StepCopy(); }

absl::Status MetricsStore::CheckpointAbove(uint64_t wal_bytes) {
  return db_->CheckpointAbove(wal_bytes);
}

}  // namespace muster::controller
