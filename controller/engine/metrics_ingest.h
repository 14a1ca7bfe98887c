// Takes in what ranks report in bulk (points and logs) and answers questions about it: the one
// thread that owns metrics.db.
//
// Waiting batches go in together with one transaction, and each is answered only after the commit.
// When the disk is full they wait here, unanswered, so that agents keep their spools; the same
// batches are tried again until there is room. Reads run between the groups on the same thread, so
// each must be one short page. All methods are thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/store/metrics_store.h"

namespace muster::controller {

struct FinishedJob {
  uint64_t job_id = 0;
  absl::Time finished;
};

struct MetricsIngestOptions {
  std::string path;             // of metrics.db
  uint64_t file_max_bytes = 0;  // 0: no bound; tests use it as a full disk
  absl::Duration full_disk_retry = absl::Seconds(1);
  // Finished jobs lose their points and logs after `retention`, and the longest finished ones
  // earlier while more than `max_bytes` are in use.
  absl::Duration retention = absl::Hours(24 * 30);
  uint64_t max_bytes = 8ull << 30;
  // What is kept of one job's logs, while it runs too: beyond it the oldest go. While metrics.db is
  // larger than `max_bytes` and no finished job has rows, an eighth of that.
  uint64_t job_log_bytes = LogBudget::kDefaultBytes;
  absl::Duration retention_interval = absl::Minutes(1);
  // Did the controller place this rank there? What comes from any other is refused, counted, and
  // acknowledged.
  std::function<bool(const RankKey& key, const std::string& worker)> known;
  // All finished jobs. Asked at each retention interval, on the ingest's thread.
  std::function<std::vector<FinishedJob>()> finished_jobs;
  // Called once when metrics.db can no longer be trusted: the process must exit and start anew.
  std::function<void(const absl::Status&)> on_fatal;
};

class MetricsIngest {
 public:
  // Opens metrics.db. Statuses as SqliteDatabase::Open.
  static absl::StatusOr<std::unique_ptr<MetricsIngest>> Open(MetricsIngestOptions options,
                                                             Clock& clock);
  ~MetricsIngest();  // stops

  void Start();
  // Finishes the group in hand, answers all that waits with UNAVAILABLE, ends the thread.
  // Idempotent.
  void Stop();

  using BatchDone = std::function<void(const absl::Status&)>;
  // Queues a batch; batches are applied in the order of the calls. `done` runs exactly once, on the
  // ingest's thread: OK: durable. UNAVAILABLE: stopping. When the queue is full, or after Stop, it
  // runs on this thread before the return: RESOURCE_EXHAUSTED or UNAVAILABLE.
  void Submit(MetricsBatch batch, BatchDone done);

  // Queues one short read. `read` runs exactly once on the ingest's thread, or, when too many wait
  // or after Stop, on this one with a null store and RESOURCE_EXHAUSTED or UNAVAILABLE. It must not
  // block.
  using Reader = std::function<void(MetricsStore* store, const absl::Status& refused)>;
  void Read(Reader read);

  // OK, or RESOURCE_EXHAUSTED while the disk is full.
  absl::Status ready() const;
  // Since this controller started.
  IngestCounts counts() const;

 private:
  struct Waiting {
    MetricsBatch batch;
    BatchDone done;
    uint64_t bytes = 0;
  };

  MetricsIngest(MetricsIngestOptions options, Clock& clock, std::unique_ptr<MetricsStore> store)
      : options_(std::move(options)), clock_(clock), store_(std::move(store)) {}

  void Run();
  void TakeGroup();                       // fills group_ from waiting_
  void DropUnknown(MetricsBatch& batch);  // counts what it drops
  absl::Status CommitGroup();
  absl::Status Retain();  // a step of retention, when it is due
  void Fail(const absl::Status& status);

  const MetricsIngestOptions options_;
  Clock& clock_;
  std::unique_ptr<MetricsStore> store_;  // the ingest's thread only, once it runs
  std::thread thread_;

  // The ingest's thread only.
  std::vector<Waiting> group_;  // being committed, or waiting for room on the disk
  absl::Duration retry_at_;
  absl::Duration retain_at_;
  std::vector<uint64_t> to_remove_;  // jobs whose rows go, last first

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Waiting> waiting_ MUSTER_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::deque<Reader> reads_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  absl::Status ready_ MUSTER_GUARDED_BY(mutex_);
  IngestCounts counts_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
