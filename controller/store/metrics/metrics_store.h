// metrics.db: packed points, log chunks, and how far each rank has been taken in.
//
// A group of batches goes in with one transaction, and with it the high-water mark of each (job,
// attempt, generation, rank) and of each log stream: so a batch that comes twice, whole or in part,
// is stored once. What is missing in between is recorded as a gap. Rows are only appended, and
// removed when retention ends. One thread owns it (MetricsIngest's); it is the only connection to
// its file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/types/metrics_types.h"
#include "controller/store/metrics/log_budget.h"
#include "controller/store/metrics/log_reader.h"
#include "controller/store/metrics/points/point_budget.h"
#include "controller/store/metrics/points/point_codec.h"
#include "controller/store/metrics/points/point_reader.h"
#include "controller/store/metrics/points/rollup.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class MetricsStore {
 public:
  // Opens or makes the file; it may not grow beyond max_bytes (0: no bound). `vfs` as in
  // SqliteOptions. Statuses as SqliteDatabase::Open.
  static absl::StatusOr<std::unique_ptr<MetricsStore>> Open(const std::string& path,
                                                            uint64_t max_bytes = 0,
                                                            const std::string& vfs = "");

  // Takes the batches in, all or none, durable on return. Adds to `counts` on success only.
  // RESOURCE_EXHAUSTED: the disk is full; nothing happened, try again later.
  // Any other code: the store can't be used further; exit and recover from disk.
  absl::Status Append(const std::vector<const MetricsBatch*>& batches, IngestCounts& counts);

  // One turn of a read. True: its page is whole.
  absl::StatusOr<bool> ReadOn(PointReading& reading);
  absl::StatusOr<bool> ReadOn(LogReading& reading);

  // Retention. What is here of each job; bytes in use.
  struct StoredJob {
    uint64_t job_id = 0;
    bool has_rows = false;  // points and logs; otherwise its marks and gaps only
  };
  absl::StatusOr<std::vector<StoredJob>> StoredJobs();
  absl::StatusOr<uint64_t> UsedBytes();
  // Removes some rows of a job, and says whether more are left. Its marks and gaps stay, so that a
  // late repeat of a removed record does not come back as a new one; unless `forgotten`: nobody
  // takes in anything of the job any more.
  absl::StatusOr<bool> RemoveSome(uint64_t job_id, bool forgotten);
  // What is kept of one job's logs.
  void SetLogBudget(uint64_t bytes) { log_budget_.SetBytes(bytes); }
  // Likewise of its points, as they are packed.
  void SetPointBudget(uint64_t bytes) {
    point_budget_.SetBytes(bytes);
    rollup_budget_.SetBytes(bytes / RollupBudget::kPart);
  }
  // As SqliteDatabase's.
  absl::Status SetMaxBytes(uint64_t max_bytes);
  absl::Status CheckpointAbove(uint64_t wal_bytes);
  absl::Status BeginCopy(const std::string& path);
  absl::StatusOr<bool> StepCopy();

 private:
  struct Marks {
    uint64_t last_seq = 0;
    int64_t first_step = 0;
    bool has_step = false;
  };
  struct LogKey {
    RankKey rank;
    bool is_stderr = false;
    auto operator<=>(const LogKey&) const = default;
  };
  struct PendingRow {
    PointsByName points;
    uint64_t count = 0;
    uint64_t first_seq = 0;
    uint64_t last_seq = 0;
    int64_t min_step = 0;
    int64_t max_step = 0;
  };

  explicit MetricsStore(std::unique_ptr<SqliteDatabase> db)
      : db_(std::move(db)),
        log_budget_(*db_),
        point_budget_(*db_),
        rollup_budget_(*db_),
        rollup_(*db_, rollup_budget_) {}

  absl::Status AppendInTransaction(const std::vector<const MetricsBatch*>& batches,
                                   IngestCounts& counts);
  absl::Status AppendRecord(const PointRecord& record, IngestCounts& counts);
  absl::Status AppendChunk(const LogChunk& chunk, IngestCounts& counts);
  absl::Status AppendGap(const Gap& gap, IngestCounts& counts);
  absl::Status WriteRow(const RankKey& key, const PendingRow& row, IngestCounts& counts);
  absl::Status WriteMarks();
  absl::Status RecordGap(const RankKey& key, int kind, uint64_t first, uint64_t last,
                         IngestCounts& counts);
  absl::Status NoteJob(uint64_t job_id);
  absl::StatusOr<Marks*> FindMarks(const RankKey& key);
  absl::StatusOr<uint64_t*> FindLogMark(const LogKey& key);
  using NamesOfJob = std::set<std::pair<uint32_t, uint64_t>>;  // rank, name id
  absl::StatusOr<NamesOfJob*> FindNames(uint64_t job_id);
  // 0: a bad name, or a new one where there are `most`.
  absl::StatusOr<uint64_t> FindName(const std::string& name, size_t most);
  // 0: refused (a bad name, or one too many).
  absl::StatusOr<uint64_t> NameId(uint64_t job_id, uint32_t rank, const std::string& name);
  absl::StatusOr<bool> RemoveRows(const char* sql, uint64_t job_id);
  void ForgetCaches();

  std::unique_ptr<SqliteDatabase> db_;
  LogBudget log_budget_;
  PointBudget point_budget_;
  RollupBudget rollup_budget_;
  Rollup rollup_;
  // What the tables say, kept between groups; forgotten when a transaction fails or when they grow
  // large.
  std::map<RankKey, Marks> marks_;
  std::map<LogKey, uint64_t> log_marks_;
  std::map<std::string, uint64_t> name_ids_;
  std::map<uint64_t, NamesOfJob> job_names_;
  // Whether there may be names that no job has any more.
  bool names_may_go_ = true;
  std::set<uint64_t> noted_jobs_;
  // Of the transaction under way.
  std::map<RankKey, PendingRow> pending_;
  std::set<RankKey> changed_marks_;
  std::set<LogKey> changed_log_marks_;
};

}  // namespace muster::controller
