#include "worker/checkpoint/saver.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_writer.h"
#include "common/fs/durable_folder.h"
#include "worker/checkpoint/tensor_snapshot.h"

namespace muster::worker {
namespace {

// Between two looks at whether a save is still wanted.
constexpr size_t kPieceBytes = size_t{4} << 20;
// Between two looks for a checkpoint root that is away.
constexpr absl::Duration kRootPause = absl::Seconds(1);

absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// One save on its way: a copy of everything that goes into the folder.
struct Job {
  CheckpointNews news;
  std::string state_json;
  TensorSnapshot model;
  TensorSnapshot optimizer;
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
      waiting_.clear();
      changed_.NotifyAll();
    }
    thread_.join();
  }

  SaveAdmission Save(const SaveRequest& request) {
    if (request.urgent) MakeRoom(request.step);
    std::unique_ptr<Job> job = TakeBuffers(request.best || request.urgent);
    if (job == nullptr) return SaveAdmission::kSkipped;
    const absl::Time start = SteadyNow();
    job->news = {request.step, request.epoch, "", "", 0, request.best, request.metrics};
    job->state_json = request.state_json;
    job->model.Copy(*request.model);
    job->optimizer.Copy(*request.optimizer);
    if (request.check) request.check();
    job->copy_time = SteadyNow() - start;

    MutexLock lock(mutex_);
    const bool idle = !busy_;
    idle ? void(starting_ = std::move(job)) : waiting_.push_back(std::move(job));
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
  // Nothing of before `step` is waited for any more.
  void MakeRoom(int64_t step) {
    std::optional<int64_t> given_up;
    {
      MutexLock lock(mutex_);
      urgent_step_ = step;
      if (in_flight_.has_value() && (!in_flight_->best || in_flight_->renamed))
        given_up = in_flight_->step;
    }
    if (given_up.has_value()) publisher_.Supersede(*given_up);
  }

  // Memory for a new snapshot; none when the waiting one keeps its place, and the new one has none
  // of its own. Only the loop's thread puts snapshots in waiting_, so nothing comes between this
  // and the end of Save.
  std::unique_ptr<Job> TakeBuffers(bool has_place) {
    MutexLock lock(mutex_);
    if (!waiting_.empty()) {
      const bool urgent = urgent_step_ > waiting_.back()->news.step;
      const bool keeps = waiting_.back()->news.best && (urgent || !has_place);
      if (keeps && !has_place) return nullptr;
      if (!keeps) {
        std::unique_ptr<Job> replaced = std::move(waiting_.back());
        waiting_.pop_back();
        return replaced;
      }
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
      in_flight_.reset();
      if (!waiting_.empty()) {
        starting_ = std::move(waiting_.front());
        waiting_.pop_front();
      }
      busy_ = starting_ != nullptr;
      changed_.NotifyAll();
    }
  }

  // The next snapshot; none when the saver is going.
  std::unique_ptr<Job> Next() {
    MutexLock lock(mutex_);
    while (starting_ == nullptr && !stopping_) changed_.Wait(mutex_);
    if (starting_ != nullptr)
      in_flight_ = InFlight{starting_->news.step, starting_->news.best, /*renamed=*/false};
    return std::move(starting_);
  }

  SaveOutcome Process(Job& job) {
    SaveOutcome outcome;
    outcome.copy_time = job.copy_time;
    publisher_.Begin(job.news.step);
    bool renamed = false;
    do {
      outcome.status = AwaitRoot(job);
      if (outcome.status.ok()) outcome.status = Commit(job, &outcome.write_time, &renamed);
    } while (!outcome.status.ok() && !renamed && MayComeBack(job));
    // After the rename the folder is whole and its fate is the controller's to know.
    if (!outcome.status.ok() && !renamed) publisher_.Failed(job.news.step, outcome.status);
    outcome.news = std::move(job.news);
    return outcome;
  }

  // The root went away in the middle: what was begun is begun anew when it is back.
  bool MayComeBack(const Job& job) {
    if (CheckRoot(fs_, options_.holder).ok() || !StillWanted(job).ok()) return false;
    MutexLock lock(mutex_);
    return !stopping_;
  }

  // UNAVAILABLE when the saver goes before the root is seen, ABORTED when an urgent save comes.
  absl::Status AwaitRoot(const Job& job) {
    for (bool first = true;; first = false) {
      const absl::Status seen = CheckRoot(fs_, options_.holder);
      if (seen.ok()) return seen;
      if (first) {
        Log(LogLevel::kWarning, "save_waits_for_root",
            {{"step", job.news.step}, {"error", seen.message()}});
      }
      MUSTER_RETURN_IF_ERROR(StillWanted(job));
      MutexLock lock(mutex_);
      if (stopping_) return seen;
      changed_.WaitFor(mutex_, kRootPause);
    }
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

    MUSTER_RETURN_IF_ERROR(StillWanted(job));
    MUSTER_RETURN_IF_ERROR(publisher_.AwaitPublish(job.news));
    MUSTER_RETURN_IF_ERROR(writer->Publish());
    *renamed = true;
    if (NoteRename()) publisher_.Supersede(job.news.step);
    return publisher_.AwaitCommitted(job.news);
  }

  absl::Status WriteFiles(const Job& job, CheckpointWriter& writer) {
    const auto write = [&](const char* file, const TensorSnapshot& snapshot) {
      return writer.AddFile(file, [&](const ByteSink& sink) {
        return WriteSafetensors(snapshot.Bytes(), [&](absl::string_view bytes) {
          for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPieceBytes))) {
            MUSTER_RETURN_IF_ERROR(StillWanted(job));
            MUSTER_RETURN_IF_ERROR(sink(bytes.substr(0, kPieceBytes)));
          }
          return absl::OkStatus();
        });
      });
    };
    MUSTER_RETURN_IF_ERROR(write(kModelFile, job.model));
    MUSTER_RETURN_IF_ERROR(write(kOptimizerFile, job.optimizer));
    return writer.AddFile(kStateFile, [&](const ByteSink& sink) { return sink(job.state_json); });
  }

  // Looked at between two pieces of a file.
  absl::Status StillWanted(const Job& job) {
    MutexLock lock(mutex_);
    if (job.news.best || job.news.step >= urgent_step_) return absl::OkStatus();
    return absl::AbortedError(
        absl::StrCat("given up for the save of step ", urgent_step_, ", which is urgent"));
  }

  // Returns whether nobody is to wait for the commit.
  bool NoteRename() {
    MutexLock lock(mutex_);
    in_flight_->renamed = true;
    return in_flight_->step < urgent_step_;
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
  struct InFlight {
    int64_t step = 0;
    bool best = false;
    bool renamed = false;
  };
  std::optional<InFlight> in_flight_ MUSTER_GUARDED_BY(mutex_);  // from when it began
  // Only while one is in flight. One; or a best one, and an urgent one behind it.
  std::deque<std::unique_ptr<Job>> waiting_ MUSTER_GUARDED_BY(mutex_);
  int64_t urgent_step_ MUSTER_GUARDED_BY(mutex_) = -1;    // -1: none was
  std::unique_ptr<Job> spare_ MUSTER_GUARDED_BY(mutex_);  // buffers of the last finished one
  std::vector<SaveOutcome> outcomes_ MUSTER_GUARDED_BY(mutex_);
  bool busy_ MUSTER_GUARDED_BY(mutex_) = false;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Saver>> Saver::Create(FileSystem& fs, Publisher& publisher,
                                                     SaverOptions options) {
  MUSTER_RETURN_IF_ERROR(CheckRoot(fs, options.holder));
  MUSTER_RETURN_IF_ERROR(MakeDurableFolder(fs, options.root));
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
