#include "controller/metrics/metrics_ingest.h"

#include <algorithm>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "controller/store/metrics/log_reader.h"
#include "controller/store/metrics/metrics_store.h"
#include "controller/store/metrics/points/point_reader.h"
#include "controller/store/set_aside.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxGroupBatches = 64;
constexpr uint64_t kMaxGroupBytes = 16 << 20;
constexpr size_t kMaxWaitingBatches = 4096;
constexpr uint64_t kMaxWaitingBytes = 256 << 20;
// Each follower of a log has one (StreamPump::kMaxPumped), and calls besides.
constexpr size_t kMaxWaitingReads = 8192;
constexpr size_t kReadsPerTurn = 16;
constexpr uint64_t kTightPart = 8;
constexpr uint64_t kWalBytes = 16 << 20;  // above it the write-ahead log is folded back
constexpr absl::Duration kLongestSleep = absl::Seconds(10);
// One look removes what is left of at most so many forgotten jobs that have no rows any more, so
// that it does not keep batches waiting.
constexpr size_t kMaxForgottenPerRun = 10'000;

// Contradictions in the file, or I/O that failed: not a full disk, nor a file that is another's.
bool IsBroken(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsUnknown(status);
}

uint64_t BytesOf(const MetricsBatch& batch) {
  uint64_t bytes = sizeof(MetricsBatch);
  for (const PointRecord& record : batch.points) {
    bytes += sizeof(PointRecord);
    for (const Point& point : record.points) bytes += sizeof(Point) + point.name.size();
  }
  for (const LogChunk& chunk : batch.logs) bytes += sizeof(LogChunk) + chunk.text.size();
  return bytes + batch.gaps.size() * sizeof(Gap);
}

}  // namespace

MetricsIngest::MetricsIngest(MetricsIngestOptions options, Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

absl::StatusOr<std::unique_ptr<MetricsIngest>> MetricsIngest::Open(MetricsIngestOptions options,
                                                                   Clock& clock) {
  std::unique_ptr<MetricsIngest> ingest(new MetricsIngest(std::move(options), clock));
  absl::Status opened = ingest->OpenStore();
  for (int tries = 1; absl::IsUnknown(opened) && tries < kOpenTries; ++tries) {
    Log(LogLevel::kWarning, "metrics_database_unreadable", {{"error", opened.ToString()}});
    absl::SleepFor(ingest->options_.open_retry);
    opened = ingest->OpenStore();
  }
  if (absl::IsDataLoss(opened)) opened = ingest->BeginAnew(opened);
  if (absl::IsUnknown(opened)) {
    return absl::UnknownError(absl::StrCat(
        opened.message(), ": tried ", kOpenTries, " times, and not known to be broken. See to ",
        "the disk; or move ", ingest->options_.path, " and its -wal away, to have metrics and ",
        "logs begin anew without it"));
  }
  MUSTER_RETURN_IF_ERROR(opened);
  return ingest;
}

absl::Status MetricsIngest::OpenStore() {
  MUSTER_ASSIGN_OR_RETURN(store_,
                          MetricsStore::Open(options_.path, options_.file_max_bytes, options_.vfs));
  SetBudgets(/*is_tight=*/false);
  return absl::OkStatus();
}

void MetricsIngest::SetBudgets(bool is_tight) {
  const uint64_t part = is_tight ? kTightPart : 1;
  store_->SetLogBudget(options_.job_log_bytes / part);
  store_->SetPointBudget(options_.job_point_bytes / part);
}

absl::Status MetricsIngest::BeginAnew(const absl::Status& why) {
  if (++times_set_aside_ > kMaxSetAside) return why;
  store_.reset();
  MUSTER_ASSIGN_OR_RETURN(const AsideDatabase aside, SetAsideDatabase(options_.path, clock_.Now()));
  Log(LogLevel::kError, "metrics_set_aside", {{"to", aside.path}, {"error", why.ToString()}});
  if (!aside.removed.empty()) {
    Log(LogLevel::kWarning, "metrics_aside_removed",
        {{"paths", absl::StrJoin(aside.removed, " ")}, {"kept", kMostSetAside}});
  }
  {
    MutexLock lock(mutex_);
    absl::StrAppend(&set_aside_, "metrics.db was broken (", why.message(), ") and lies at ",
                    aside.path, " now; metrics and logs begin anew\n");
  }
  return OpenStore();
}

absl::Status MetricsIngest::Recover(const absl::Status& error) {
  if (!IsBroken(error)) return error;
  Log(LogLevel::kError, "metrics_database_failed", {{"error", error.ToString()}});
  to_remove_.clear();
  const absl::Duration now = clock_.SinceBoot();
  const bool again = now - std::exchange(reopened_at_, now) < kTroubleWindow;
  if (absl::IsDataLoss(error) || again) return BeginAnew(error);
  // As a new process would: what is on the disk is read again.
  store_.reset();
  const absl::Status opened = OpenStore();
  return IsBroken(opened) ? BeginAnew(opened) : opened;
}

MetricsIngest::~MetricsIngest() { Stop(); }

void MetricsIngest::Start() {
  retain_at_ = clock_.SinceBoot() + options_.retention_interval;
  if (!options_.threads) return;
  thread_ = std::thread([this] { Run(); });
}

void MetricsIngest::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  std::deque<Waiting> waiting;
  std::deque<Reader> reads;
  {
    MutexLock lock(mutex_);
    waiting.swap(waiting_);
    reads.swap(reads_);
    waiting_bytes_ = 0;
  }
  const absl::Status stopped = absl::UnavailableError("the controller is stopping");
  for (Waiting& entry : group_) entry.done(stopped);
  group_.clear();
  for (Waiting& entry : waiting) entry.done(stopped);
  for (Reader& read : reads) read(nullptr, stopped);
}

void MetricsIngest::Submit(MetricsBatch batch, BatchDone done) {
  Waiting entry{std::move(batch), std::move(done), 0};
  entry.bytes = BytesOf(entry.batch);
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = absl::UnavailableError("the controller is stopping");
    } else if (waiting_.size() >= kMaxWaitingBatches || waiting_bytes_ > kMaxWaitingBytes) {
      refused =
          absl::ResourceExhaustedError("too many batches wait to be stored: send them again later");
    } else {
      waiting_bytes_ += entry.bytes;
      waiting_.push_back(std::move(entry));
    }
  }
  if (!refused.ok()) {
    entry.done(refused);
    return;
  }
  wake_.NotifyOne();
}

void MetricsIngest::Read(Reader read) { Queue(std::move(read), /*begun=*/false); }

void MetricsIngest::Queue(Reader read, bool begun) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = absl::UnavailableError("the controller is stopping");
    } else if (!begun && reads_.size() >= kMaxWaitingReads) {
      refused = absl::ResourceExhaustedError(
          "too many readers wait for metrics and logs: try again later");
    } else {
      reads_.push_back(std::move(read));
    }
  }
  if (!refused.ok()) {
    read(nullptr, refused);
    return;
  }
  wake_.NotifyOne();
}

template <typename Reading, typename Done>
void MetricsIngest::ReadInTurns(std::shared_ptr<Reading> reading, Done done, bool begun) {
  Queue(
      [this, reading = std::move(reading), done = std::move(done)](MetricsStore* store,
                                                                   const absl::Status& refused) {
        if (store == nullptr) return done(refused);
        const absl::StatusOr<bool> whole = store->ReadOn(*reading);
        if (!whole.ok()) return done(whole.status());
        if (*whole) return done(reading->TakePage());
        ReadInTurns(reading, done, /*begun=*/true);
      },
      begun);
}

void MetricsIngest::ReadPoints(PointQuery query, PointsDone done) {
  ReadInTurns(std::make_shared<PointReading>(std::move(query)), std::move(done));
}

void MetricsIngest::ReadLogs(LogQuery query, LogPosition position, LogsDone done) {
  ReadInTurns(std::make_shared<LogReading>(query, std::move(position)), std::move(done));
}

absl::Status MetricsIngest::CopyTo(const std::string& path) {
  // Shared: who sets the value may be at it still when it has been taken.
  const auto ended = std::make_shared<std::promise<absl::Status>>();
  // Kept here until the copy has ended, so that it does not keep itself.
  std::function<void(MetricsStore*, const absl::Status&)> step;
  step = [this, ended, &step](MetricsStore* store, const absl::Status& refused) {
    if (store == nullptr) return ended->set_value(refused);
    const absl::StatusOr<bool> whole = store->StepCopy();
    if (!whole.ok() || *whole) return ended->set_value(whole.status());
    Queue(step, /*begun=*/true);
  };
  Read([this, ended, &step, path](MetricsStore* store, const absl::Status& refused) {
    if (store == nullptr) return ended->set_value(refused);
    if (const absl::Status begun = store->BeginCopy(path); !begun.ok()) {
      return ended->set_value(begun);
    }
    Queue(step, /*begun=*/true);
  });
  return ended->get_future().get();
}

absl::Status MetricsIngest::ready() const {
  MutexLock lock(mutex_);
  return ready_;
}

std::string MetricsIngest::set_aside() const {
  MutexLock lock(mutex_);
  return set_aside_;
}

IngestCounts MetricsIngest::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void MetricsIngest::Run() {
  while (AwaitWork()) {
    if (const absl::Status status = Turn(); !status.ok()) return Fail(status);
  }
}

void MetricsIngest::RunUntilIdle() {
  bool has_work = true;
  while (has_work) {
    if (const absl::Status status = Turn(); !status.ok()) return Fail(status);
    const bool is_due = !group_.empty() && retry_at_ <= clock_.SinceBoot();
    MutexLock lock(mutex_);
    has_work = is_due || HasWorkLocked();
  }
}

bool MetricsIngest::HasWorkLocked() const {
  return !reads_.empty() || (group_.empty() && !waiting_.empty()) || !to_remove_.empty();
}

bool MetricsIngest::AwaitWork() {
  MutexLock lock(mutex_);
  const absl::Duration now = clock_.SinceBoot();
  const absl::Duration due = group_.empty() ? retain_at_ : std::min(retain_at_, retry_at_);
  if (!stopping_ && !HasWorkLocked() && due > now) {
    wake_.WaitFor(mutex_, std::min(due - now, kLongestSleep));
  }
  return !stopping_;
}

absl::Status MetricsIngest::Turn() {
  std::vector<Reader> reads;
  {
    MutexLock lock(mutex_);
    while (!reads_.empty() && reads.size() < kReadsPerTurn) {
      reads.push_back(std::move(reads_.front()));
      reads_.pop_front();
    }
  }
  for (Reader& read : reads) read(store_.get(), absl::OkStatus());
  if (group_.empty()) {
    TakeGroup();
    retry_at_ = absl::ZeroDuration();
  }
  absl::Status status;
  if (!group_.empty() && retry_at_ <= clock_.SinceBoot()) status = CommitGroup();
  if (status.ok()) status = Retain();
  return status.ok() ? status : Recover(status);
}

void MetricsIngest::TakeGroup() {
  MutexLock lock(mutex_);
  uint64_t bytes = 0;
  while (!waiting_.empty() && group_.size() < kMaxGroupBatches && bytes < kMaxGroupBytes) {
    bytes += waiting_.front().bytes;
    waiting_bytes_ -= waiting_.front().bytes;
    group_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void MetricsIngest::DropUnknown(MetricsBatch& batch) {
  std::map<RankKey, bool> asked;
  const auto is_known = [&](const RankKey& key) {
    const auto before = asked.find(key);
    if (before != asked.end()) return before->second;
    const absl::StatusOr<bool> known = options_.known(key, batch.worker);
    if (!known.ok()) {
      Log(LogLevel::kWarning, "metrics_origin_unreadable",
          {{"job", key.job_id}, {"worker", batch.worker}, {"error", known.status().ToString()}});
    }
    return asked[key] = known.value_or(true);
  };
  const auto unknown = [&](const auto& part) { return !is_known(part.key); };
  uint64_t dropped = std::erase_if(batch.points, unknown);
  dropped += std::erase_if(batch.logs, unknown);
  dropped += std::erase_if(batch.gaps, unknown);
  if (dropped == 0) return;
  MutexLock lock(mutex_);
  counts_.refused_records += dropped;
}

absl::Status MetricsIngest::CommitGroup() {
  std::vector<const MetricsBatch*> batches;
  for (Waiting& entry : group_) {
    if (options_.known) DropUnknown(entry.batch);
    batches.push_back(&entry.batch);
  }
  IngestCounts counts;
  const absl::Status status = store_->Append(batches, counts);
  bool was_ready = false;
  {
    MutexLock lock(mutex_);
    was_ready = ready_.ok();
    ready_ = status;
    counts_.Add(counts);
  }
  if (absl::IsResourceExhausted(status)) {
    if (was_ready) Log(LogLevel::kWarning, "metrics_disk_full", {{"error", status.ToString()}});
    retry_at_ = clock_.SinceBoot() + options_.full_disk_retry;
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(status);
  if (!was_ready) Log(LogLevel::kInfo, "metrics_disk_has_room");
  std::vector<Waiting> stored = std::exchange(group_, {});
  for (Waiting& entry : stored) entry.done(absl::OkStatus());
  return store_->CheckpointAbove(kWalBytes);
}

absl::Status MetricsIngest::Retain() {
  absl::Status status;
  if (!to_remove_.empty()) {
    status = RemoveSome();
  } else if (options_.ends && clock_.SinceBoot() >= retain_at_) {
    retain_at_ = clock_.SinceBoot() + options_.retention_interval;
    status = ChooseWhatGoes();
  }
  // Without room even for a removal: the next turn of retention tries again.
  if (absl::IsResourceExhausted(status)) {
    to_remove_.clear();
    retain_at_ = clock_.SinceBoot() + options_.retention_interval;
    return absl::OkStatus();
  }
  return status;
}

absl::Status MetricsIngest::RemoveSome() {
  const Removal removal = to_remove_.front();
  if (removal.only_while_large) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t used, store_->UsedBytes());
    if (used <= options_.max_bytes) {
      std::erase_if(to_remove_, [](const Removal& left) { return left.only_while_large; });
      return absl::OkStatus();
    }
  }
  const JobEnd end = options_.ends({removal.job_id}).front();
  if (end.state == JobEnd::State::kNotEnded) {
    to_remove_.pop_front();  // it was requeued
    return absl::OkStatus();
  }
  const bool is_forgotten = end.state == JobEnd::State::kForgotten;
  MUSTER_ASSIGN_OR_RETURN(const bool more, store_->RemoveSome(removal.job_id, is_forgotten));
  if (!more) {
    to_remove_.pop_front();
    // Forgotten jobs are not logged one by one: a million may go at once.
    if (!is_forgotten) Log(LogLevel::kInfo, "metrics_removed", {{"job", removal.job_id}});
  }
  // Removals write, too, and nobody may be reporting meanwhile.
  return store_->CheckpointAbove(kWalBytes);
}

absl::Status MetricsIngest::ChooseWhatGoes() {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<MetricsStore::StoredJob> stored, store_->StoredJobs());
  MUSTER_ASSIGN_OR_RETURN(const uint64_t used, store_->UsedBytes());
  std::vector<uint64_t> ids;
  ids.reserve(stored.size());
  for (const MetricsStore::StoredJob& job : stored) ids.push_back(job.job_id);
  const std::vector<JobEnd> ends = options_.ends(ids);
  // Rows go before what is left of forgotten jobs besides, marks and gaps: that frees space.
  std::vector<uint64_t> forgotten_marks;
  std::vector<std::pair<absl::Duration, uint64_t>> ended;  // those that have rows
  for (size_t i = 0; i < stored.size(); ++i) {
    const auto& [job_id, has_rows] = stored[i];
    if (ends[i].state == JobEnd::State::kForgotten) {
      if (has_rows) {
        to_remove_.push_back({job_id});
      } else if (forgotten_marks.size() < kMaxForgottenPerRun) {
        forgotten_marks.push_back(job_id);
      }
    } else if (ends[i].state == JobEnd::State::kEnded && has_rows) {
      ended.emplace_back(ends[i].ago, job_id);
    }
  }
  if (!to_remove_.empty() || !forgotten_marks.empty()) {
    Log(LogLevel::kInfo, "metrics_of_forgotten_jobs_go",
        {{"jobs", to_remove_.size() + forgotten_marks.size()}});
  }
  const bool is_large = used > options_.max_bytes;
  SetBudgets(/*is_tight=*/is_large && ended.empty() && to_remove_.empty());
  std::sort(ended.begin(), ended.end(), std::greater<>());
  for (const auto& [ago, job_id] : ended) {
    const bool is_due = ago > options_.retention;
    if (is_due || is_large) to_remove_.push_back({job_id, /*only_while_large=*/!is_due});
  }
  for (uint64_t job_id : forgotten_marks) to_remove_.push_back({job_id});
  if (forgotten_marks.size() == kMaxForgottenPerRun) retain_at_ = clock_.SinceBoot();
  return absl::OkStatus();
}

void MetricsIngest::Fail(const absl::Status& status) {
  Log(LogLevel::kError, "metrics_database_failed", {{"error", status.ToString()}});
  {
    MutexLock lock(mutex_);
    ready_ = status;
  }
  if (options_.on_fatal) options_.on_fatal(status);
}

}  // namespace muster::controller
