#include "worker/checkpoint/saver.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_writer.h"
#include "worker/checkpoint/snapshot.h"

namespace muster::worker {
namespace {

absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// One save on its way: a copy of everything that goes into the folder.
struct Job {
  CheckpointNews news;
  std::string state_json;
  Snapshot model;
  Snapshot optimizer;
  absl::Duration copy_time;
};

}  // namespace

class Saver::Impl {
 public:
  Impl(FileSystem& fs, Publisher& publisher, SaverOptions options)
      : fs_(fs), publisher_(publisher), options_(std::move(options)) {
    thread_ = std::thread([this] { Run(); });
  }

  ~Impl() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      waiting_.reset();
      changed_.NotifyAll();
    }
    thread_.join();
  }

  SaveAdmission Save(const SaveRequest& request) {
    std::unique_ptr<Job> job = TakeBuffers(request.best);
    if (job == nullptr) return SaveAdmission::kSkipped;
    const absl::Time start = SteadyNow();
    job->news = {request.step, request.epoch, "", "", 0, request.best, request.metrics};
    job->state_json = request.state_json;
    job->model.Copy(*request.model);
    job->optimizer.Copy(*request.optimizer);
    job->copy_time = SteadyNow() - start;

    MutexLock lock(mutex_);
    const bool idle = !busy_;
    (idle ? starting_ : waiting_) = std::move(job);
    busy_ = true;
    changed_.NotifyAll();
    return idle ? SaveAdmission::kStarted : SaveAdmission::kWaiting;
  }

  std::vector<SaveOutcome> TakeOutcomes() {
    MutexLock lock(mutex_);
    return std::exchange(outcomes_, {});
  }

  absl::Status Flush(absl::Duration timeout) {
    const absl::Time deadline = SteadyNow() + timeout;
    MutexLock lock(mutex_);
    while (busy_) {
      const absl::Duration left = deadline - SteadyNow();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError("a checkpoint is still on its way");
      }
      // A bound on one wait, so that an infinite timeout stays in range of the clock.
      changed_.WaitFor(mutex_, std::min(left, absl::Hours(1)));
    }
    return absl::OkStatus();
  }

 private:
  // Memory for a new snapshot; none when the waiting one keeps its place. Only the loop's thread
  // puts snapshots in waiting_, so nothing comes between this and the end of Save.
  std::unique_ptr<Job> TakeBuffers(bool best) {
    MutexLock lock(mutex_);
    if (waiting_ != nullptr) {
      if (waiting_->news.best && !best) return nullptr;
      return std::move(waiting_);
    }
    if (spare_ != nullptr) return std::move(spare_);
    return std::make_unique<Job>();
  }

  void Run() {
    while (std::unique_ptr<Job> job = Next()) {
      SaveOutcome outcome = Process(*job);
      MutexLock lock(mutex_);
      outcomes_.push_back(std::move(outcome));
      spare_ = std::move(job);
      starting_ = std::move(waiting_);
      busy_ = starting_ != nullptr;
      changed_.NotifyAll();
    }
  }

  // The next snapshot; none when the saver is going.
  std::unique_ptr<Job> Next() {
    MutexLock lock(mutex_);
    while (starting_ == nullptr && !stopping_) changed_.Wait(mutex_);
    return std::move(starting_);
  }

  SaveOutcome Process(Job& job) {
    SaveOutcome outcome;
    outcome.copy_time = job.copy_time;
    publisher_.Begin(job.news.step);
    bool renamed = false;
    outcome.status = Commit(job, &outcome.write_time, &renamed);
    // After the rename the folder is whole and its fate is the controller's to know.
    if (!outcome.status.ok() && !renamed) publisher_.Failed(job.news.step, outcome.status);
    outcome.news = std::move(job.news);
    return outcome;
  }

  absl::Status Commit(Job& job, absl::Duration* write_time, bool* renamed) {
    const absl::Time start = SteadyNow();
    MUSTER_ASSIGN_OR_RETURN(
        const std::unique_ptr<CheckpointWriter> writer,
        CheckpointWriter::Create(fs_, options_.root,
                                 {job.news.step, options_.attempt, options_.generation, Nonce()}));
    MUSTER_RETURN_IF_ERROR(WriteFiles(job, *writer));
    Manifest manifest;
    manifest.job_id = options_.job_id;
    manifest.job_name = options_.job_name;
    manifest.epoch = job.news.epoch;
    manifest.best = job.news.best;
    manifest.metrics = job.news.metrics;
    MUSTER_ASSIGN_OR_RETURN(job.news.manifest_sha256, writer->Finish(std::move(manifest)));
    job.news.bytes = writer->bytes();
    job.news.path = writer->published_path();
    *write_time = SteadyNow() - start;

    MUSTER_RETURN_IF_ERROR(publisher_.AwaitPublish(job.news));
    MUSTER_RETURN_IF_ERROR(writer->Publish());
    *renamed = true;
    return publisher_.AwaitCommitted(job.news);
  }

  static absl::Status WriteFiles(const Job& job, CheckpointWriter& writer) {
    MUSTER_RETURN_IF_ERROR(writer.AddFile(kModelFile, [&](const ByteSink& sink) {
      return WriteSafetensors(job.model.Bytes(), sink);
    }));
    MUSTER_RETURN_IF_ERROR(writer.AddFile(kOptimizerFile, [&](const ByteSink& sink) {
      return WriteSafetensors(job.optimizer.Bytes(), sink);
    }));
    return writer.AddFile(kStateFile, [&](const ByteSink& sink) { return sink(job.state_json); });
  }

  std::string Nonce() {
    return absl::StrCat(absl::Hex(SplitMix64(options_.nonce_seed + ++folders_), absl::kZeroPad16));
  }

  FileSystem& fs_;
  Publisher& publisher_;
  const SaverOptions options_;
  uint64_t folders_ = 0;  // of the saver's thread alone

  Mutex mutex_;
  CondVar changed_;
  // In flight from the moment it is here: nothing takes its place.
  std::unique_ptr<Job> starting_ MUSTER_GUARDED_BY(mutex_);
  std::unique_ptr<Job> waiting_ MUSTER_GUARDED_BY(mutex_);  // only while one is in flight
  std::unique_ptr<Job> spare_ MUSTER_GUARDED_BY(mutex_);    // buffers of the last finished one
  std::vector<SaveOutcome> outcomes_ MUSTER_GUARDED_BY(mutex_);
  bool busy_ MUSTER_GUARDED_BY(mutex_) = false;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Saver>> Saver::Create(FileSystem& fs, Publisher& publisher,
                                                     SaverOptions options) {
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(options.root));
  MUSTER_RETURN_IF_ERROR(
      RemoveStaleTemporaries(fs, options.root, options.attempt, options.generation));
  return std::unique_ptr<Saver>(
      new Saver(std::make_unique<Impl>(fs, publisher, std::move(options))));
}

Saver::Saver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Saver::~Saver() = default;
SaveAdmission Saver::Save(const SaveRequest& request) { return impl_->Save(request); }
std::vector<SaveOutcome> Saver::TakeOutcomes() { return impl_->TakeOutcomes(); }
absl::Status Saver::Flush(absl::Duration timeout) { return impl_->Flush(timeout); }

}  // namespace muster::worker
