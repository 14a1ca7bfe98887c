// history.db: jobs that have left memory (model/history.h). It has one connection, which its
// callers share: who reads waits for who archives, for milliseconds.
//
// Every write is one transaction, and durable at the return. A job may be put again: the last time
// counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "controller/model/history.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class HistoryStore final : public History {
 public:
  // Opens or makes the file. Errors: those of store/sqlite.h.
  static absl::StatusOr<std::unique_ptr<HistoryStore>> Open(const SqliteOptions& options);

  // For a file that was just made, or is older than `last_put`, the newest Put that somebody relies
  // on: what it lacks was lost, not forgotten. Does nothing to another one. `last_job` was the last
  // one to be submitted, `now` is ledger time.
  absl::Status Begin(uint64_t last_job, absl::Time now, uint64_t last_put);

  // An array comes whole. The number of this Put: they ascend.
  absl::StatusOr<uint64_t> Put(const std::vector<ArchivedJob>& jobs);

  // Removes jobs whose checkpoints are all deleted and from which no job here has begun, the
  // longest finished first and about `most` at once: those that finished by `horizon` (ledger
  // time), and any while more than `bound` are here. An array goes whole. Returns how many went.
  absl::StatusOr<size_t> RemoveOldest(absl::Time horizon, size_t bound, size_t most);

  // Copies history.db to a new file, a piece at a time; others get at it in between. Blocks.
  absl::Status CopyTo(const std::string& path);

  // The highest ids that are here; 0: none.
  struct Highest {
    uint64_t job = 0;
    uint64_t checkpoint = 0;
    uint64_t event = 0;
  };
  absl::StatusOr<Highest> HighestIds();

  size_t jobs() const override { return jobs_; }
  uint64_t began_after_job() const override { return began_after_job_; }
  absl::Time began() const override { return absl::FromUnixNanos(began_ns_); }
  uint64_t last_event() const override;
  absl::StatusOr<ArchivedJob> Find(uint64_t id) override;
  absl::StatusOr<uint64_t> NewestOfName(absl::string_view name) override;
  absl::StatusOr<uint64_t> NewestResumable(absl::string_view project, absl::string_view name,
                                           uint64_t below) override;
  absl::StatusOr<std::vector<uint64_t>> TasksOf(uint64_t array_id) override;
  absl::StatusOr<uint64_t> OfKey(absl::string_view owner, absl::string_view key) override;
  absl::StatusOr<uint64_t> OfCheckpoint(uint64_t checkpoint_id) override;
  absl::StatusOr<std::map<uint64_t, absl::Time>> FinishedAmong(
      const std::vector<uint64_t>& ids) override;
  absl::StatusOr<bool> WasPlacedOn(const RankKey& rank, absl::string_view worker) override;
  absl::StatusOr<ArchivedPage<uint64_t>> List(const ArchivedJobsQuery& query) override;
  absl::StatusOr<ArchivedPage<ArchivedLedger>> Ledgers(const ArchivedJobsQuery& query) override;
  absl::StatusOr<std::vector<std::shared_ptr<const JobEvent>>> EventsAfter(uint64_t sequence,
                                                                           size_t most) override;
  absl::StatusOr<std::vector<uint64_t>> NewestEvents(size_t most) override;

 private:
  explicit HistoryStore(std::unique_ptr<SqliteDatabase> database)
      : database_(std::move(database)) {}

  absl::Status Count() MUSTER_REQUIRES(mutex_);
  absl::Status PutRows(const ArchivedJob& archived) MUSTER_REQUIRES(mutex_);
  absl::Status RemoveRows(uint64_t id) MUSTER_REQUIRES(mutex_);
  // Sets job_index.forgettable_from_ns of a job, with all tasks of its array.
  absl::Status UpdateForgettable(uint64_t id) MUSTER_REQUIRES(mutex_);
  // The first column of all rows.
  absl::StatusOr<std::vector<uint64_t>> Ids(const char* sql, uint64_t id) MUSTER_REQUIRES(mutex_);
  // In one transaction: all of `write`, or nothing.
  template <typename Write>
  absl::Status Transact(Write write) MUSTER_REQUIRES(mutex_);
  absl::StatusOr<ArchivedPage<uint64_t>> ListLocked(const ArchivedJobsQuery& query)
      MUSTER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unique_ptr<SqliteDatabase> database_ MUSTER_GUARDED_BY(mutex_);
  std::atomic<size_t> jobs_ = 0;
  std::atomic<uint64_t> began_after_job_ = 0;
  std::atomic<int64_t> began_ns_ = 0;
  uint64_t last_event_ MUSTER_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster::controller
