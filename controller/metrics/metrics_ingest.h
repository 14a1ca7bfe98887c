// Takes in what ranks report in bulk (points and logs) and answers questions about it: the one
// thread that owns metrics.db.
//
// Waiting batches go in together with one transaction, and each is answered only after the commit.
// When the disk is full they wait here, unanswered, so that agents keep their spools; the same
// batches are tried again until there is room. Reads run between the groups on the same thread, a
// short turn each: one that needs more is queued again behind the others. All methods are
// thread-safe; in muster_sim there is no thread, and RunUntilIdle does the work.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/metrics/metrics_reader.h"
#include "controller/model/types/metrics_types.h"

namespace muster::controller {

class MetricsStore;

// What has become of a job of which metrics.db has something.
struct JobEnd {
  enum class State : uint8_t { kNotEnded, kEnded, kForgotten };
  State state = State::kNotEnded;
  absl::Duration ago;  // that it ended, by ledger time
};

struct MetricsIngestOptions {
  std::string path;             // of metrics.db
  std::string vfs;              // as in SqliteOptions
  bool threads = true;          // false: only RunUntilIdle does anything
  uint64_t file_max_bytes = 0;  // 0: no bound; tests use it as a full disk
  absl::Duration full_disk_retry = absl::Seconds(1);
  absl::Duration open_retry = absl::Seconds(1);  // after an I/O error at the start
  // Finished jobs lose their points and logs after `retention`, and the longest finished ones
  // earlier while more than `max_bytes` are in use.
  absl::Duration retention = absl::Hours(24 * 30);
  uint64_t max_bytes = 8ull << 30;
  // What is kept of one job's logs, while it runs too: beyond it the oldest go. While metrics.db is
  // larger than `max_bytes` and no finished job has rows, an eighth of that.
  uint64_t job_log_bytes = kDefaultJobLogBytes;
  uint64_t job_point_bytes = kDefaultJobPointBytes;  // likewise of its points
  absl::Duration retention_interval = absl::Minutes(1);
  // Did the controller place this rank there? What comes from any other is refused, counted, and
  // acknowledged. An error: that cannot be told now; it is taken.
  std::function<absl::StatusOr<bool>(const RankKey& key, const std::string& worker)> known;
  // What has become of these jobs, whose ids ascend; one answer each, in their order. Of those that
  // are forgotten, all that metrics.db has is removed at once. Asked on the ingest's thread of
  // every job that metrics.db has anything of, every retention_interval, and again of each before a
  // step of its removal: it may have been requeued. Not set: nothing is removed.
  std::function<std::vector<JobEnd>(const std::vector<uint64_t>& jobs)> ends;
  // Called once when there can be no metrics.db: the process must exit and start anew.
  std::function<void(const absl::Status&)> on_fatal;
};

// Metrics are worth less than the jobs that they tell of: a metrics.db that is broken, at the start
// or later, is set aside under a name with the date, and a new one begun. So it ends nothing. One
// that the disk does not give out at the start may be whole: it is left where it is.
class MetricsIngest final : public MetricsReader {
 public:
  // A failed read or write of metrics.db has it opened anew; one more within this time, or any
  // contradiction in it, has it set aside. So often in one life, and no more.
  static constexpr absl::Duration kTroubleWindow = absl::Hours(1);
  static constexpr int kMaxSetAside = 3;
  // How often metrics.db is opened at the start, open_retry apart, before an I/O error counts.
  static constexpr int kOpenTries = 5;

  // Opens metrics.db, or begins a new one in place of a broken one. Statuses as
  // SqliteDatabase::Open; UNKNOWN: it could not be read, kOpenTries times, and is left as it is.
  static absl::StatusOr<std::unique_ptr<MetricsIngest>> Open(MetricsIngestOptions options,
                                                             Clock& clock);
  ~MetricsIngest() override;  // stops

  void Start();
  // Only with options.threads == false: stores and answers all that waits. What found the disk full
  // is tried again by a call after full_disk_retry.
  void RunUntilIdle();
  // Finishes the group in hand, answers all that waits with UNAVAILABLE, ends the thread.
  // Idempotent.
  void Stop();

  using BatchDone = std::function<void(const absl::Status&)>;
  // Queues a batch; batches are applied in the order of the calls. `done` runs exactly once, on the
  // ingest's thread: OK: durable. UNAVAILABLE: stopping. When the queue is full, or after Stop, it
  // runs on this thread before the return: RESOURCE_EXHAUSTED or UNAVAILABLE.
  void Submit(MetricsBatch batch, BatchDone done);

  void ReadPoints(PointQuery query, PointsDone done) override;
  void ReadLogs(LogQuery query, LogPosition position, LogsDone done) override;

  // Queues one turn. `read` runs exactly once on the ingest's thread, or, when too many wait or
  // after Stop, on this one with a null store and RESOURCE_EXHAUSTED or UNAVAILABLE. It must be
  // short and must not block.
  using Reader = std::function<void(MetricsStore* store, const absl::Status& refused)>;
  void Read(Reader read);

  // Copies metrics.db to a new file, a turn at a time between reads and commits. Blocks; not from
  // the ingest's thread. Statuses as store/sqlite.h, and those of Read.
  absl::Status CopyTo(const std::string& path);

  // OK, or RESOURCE_EXHAUSTED while the disk is full.
  absl::Status ready() const;
  // For people: which databases were set aside in this life, and why. Empty: none.
  std::string set_aside() const;
  // Since this controller started.
  IngestCounts counts() const;

 private:
  struct Waiting {
    MetricsBatch batch;
    BatchDone done;
    uint64_t bytes = 0;
  };

  MetricsIngest(MetricsIngestOptions options, Clock& clock);

  absl::Status OpenStore();
  absl::Status BeginAnew(const absl::Status& why);
  // After an error of the store: OK when there is one again to go on with.
  absl::Status Recover(const absl::Status& error);

  // Takes turns until the reading's page is whole.
  template <typename Reading, typename Done>
  void ReadInTurns(std::shared_ptr<Reading> reading, Done done, bool begun = false);
  // What has begun to read goes on, however many wait.
  void Queue(Reader read, bool begun);
  void SetBudgets(bool is_tight);

  void Run();
  bool HasWorkLocked() const MUSTER_REQUIRES(mutex_);
  bool AwaitWork();                       // false: it is to stop
  absl::Status Turn();                    // some reads, one group, a step of retention
  void TakeGroup();                       // fills group_ from waiting_
  void DropUnknown(MetricsBatch& batch);  // counts what it drops
  absl::Status CommitGroup();
  absl::Status Retain();  // a step of retention, when it is due
  absl::Status RemoveSome();
  absl::Status ChooseWhatGoes();  // fills to_remove_; sets the budgets
  void Fail(const absl::Status& status);

  const MetricsIngestOptions options_;
  Clock& clock_;
  std::unique_ptr<MetricsStore> store_;  // the ingest's thread only, once it runs
  std::thread thread_;

  // The ingest's thread only.
  std::vector<Waiting> group_;  // being committed, or waiting for room on the disk
  absl::Duration retry_at_;
  absl::Duration retain_at_;
  struct Removal {
    uint64_t job_id = 0;
    bool only_while_large = false;  // it stays once metrics.db is within its bound
  };
  std::deque<Removal> to_remove_;  // in this order
  absl::Duration reopened_at_ = -absl::InfiniteDuration();
  int times_set_aside_ = 0;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Waiting> waiting_ MUSTER_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::deque<Reader> reads_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  absl::Status ready_ MUSTER_GUARDED_BY(mutex_);
  std::string set_aside_ MUSTER_GUARDED_BY(mutex_);
  IngestCounts counts_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
