// A whole training run in one process: each rank a thread, over a real transport, real files and
// fakes of agent and controller.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/deadline.h"
#include "common/base/mutex.h"
#include "worker/checkpoint/publisher.h"
#include "worker/dist/gang.h"
#include "worker/train/loop.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/recipe/transfer.h"

namespace muster::testing {

// What one rank told its agent.
class FakeRunHost final : public worker::RunHost {
 public:
  worker::RequestedStop requested_stop() override {
    if (ask) return ask();
    const bool evaluates = !phases.empty() && phases.back() == "evaluate";
    const bool due = requested_in_evaluation
                         ? evaluates && step_ >= requested_after_step
                         : requested_after_step >= 0 && step_ >= requested_after_step;
    return due ? requested : worker::RequestedStop();
  }
  void Progress(const std::string& phase, int64_t step, int64_t, double) override {
    phases.push_back(phase);
    step_ = step;
  }
  void KeepAlive() override {
    ++beats;
    if (on_beat) on_beat(phases.empty() ? "" : phases.back());
  }
  void MemoryEstimated(const std::string& need) override { memory_need = need; }
  void Metrics(int64_t step, const std::map<std::string, double>& values) override {
    for (const auto& [name, value] : values) metrics[name][step] = value;
  }
  void CorruptCheckpoint(const std::string& path, int64_t, const std::string&) override {
    corrupt.push_back(path);
  }
  void UnreadCheckpoint(const std::string& path, int64_t, const std::string&) override {
    unread.push_back(path);
  }

  worker::RequestedStop requested;
  int64_t requested_after_step = -1;     // -1: never
  bool requested_in_evaluation = false;  // in the first evaluation from that step on
  int64_t beats = 0;
  std::function<void(const std::string& phase)> on_beat;
  std::function<worker::RequestedStop()> ask;  // instead of `requested`
  std::string memory_need;
  std::vector<std::string> phases;
  std::map<std::string, std::map<int64_t, double>> metrics;
  std::vector<std::string> corrupt;
  std::vector<std::string> unread;

 private:
  int64_t step_ = 0;
};

// Allows everything at once, and commits it after `before_commit` (may be empty), unless another
// save superseded it meanwhile; keeps what was committed.
class FakePublisher final : public worker::Publisher {
 public:
  // With `when_superseded` it commits nothing until some save is superseded, for a minute at most.
  explicit FakePublisher(std::function<void()> before_commit = nullptr,
                         bool when_superseded = false)
      : before_commit_(std::move(before_commit)), when_superseded_(when_superseded) {}

  void Begin(int64_t) override {}
  absl::Status AwaitPublish(const worker::CheckpointNews&) override { return absl::OkStatus(); }
  absl::Status AwaitCommitted(const worker::CheckpointNews& news) override {
    if (before_commit_) before_commit_();
    const Deadline deadline(when_superseded_ ? absl::Minutes(1) : absl::ZeroDuration());
    MutexLock lock(mutex_);
    while (superseded_.empty() && !deadline.over()) changed_.WaitFor(mutex_, deadline.left());
    if (superseded_.contains(news.step)) return absl::AbortedError("superseded");
    committed_.push_back(news);
    return absl::OkStatus();
  }
  void Failed(int64_t, const absl::Status&) override {}
  void Supersede(int64_t step) override {
    MutexLock lock(mutex_);
    superseded_.insert(step);
    changed_.NotifyAll();
  }

  std::vector<worker::CheckpointNews> committed() const {
    MutexLock lock(mutex_);
    return committed_;
  }

 private:
  const std::function<void()> before_commit_;
  const bool when_superseded_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<int64_t> superseded_ MUSTER_GUARDED_BY(mutex_);
  std::vector<worker::CheckpointNews> committed_ MUSTER_GUARDED_BY(mutex_);
};

// Of attempt `attempt` of job 1.
inline worker::CheckpointsOptions TestCheckpoints(
    const std::string& root, uint32_t attempt, const std::vector<CheckpointCandidate>& candidates) {
  worker::CheckpointsOptions options;
  options.root = root;
  options.job_id = 1;
  options.job_name = "test";
  options.attempt = attempt;
  options.generation = 1;
  options.nonce_seed = attempt;
  options.candidates = candidates;
  return options;
}

struct TrainingRun {
  int world_size = 1;
  worker::Transport transport = worker::Transport::kAuto;
  bool resnet = false;
  // Instead of the two models: called on each rank.
  std::function<std::unique_ptr<worker::Model>(const worker::ModelContext&)> make_model;
  bool checkpoint_blocks = false;  // of the ResNet
  bool adamw = true;
  // Instead of the two optimizers: called on each rank.
  std::function<std::unique_ptr<worker::Optimizer>(const std::vector<worker::OptimizedParameter>&)>
      make_optimizer;
  std::optional<worker::EmaConfig> ema;
  std::optional<worker::TransferConfig> transfer;
  std::optional<worker::PruneConfig> prune;
  // Around the samples: called on each rank.
  std::function<std::unique_ptr<worker::Dataset>(int rank, std::unique_ptr<worker::Dataset> data)>
      wrap_data;
  // Around the cross-entropy: called on each rank.
  std::function<std::unique_ptr<worker::Objective>(std::unique_ptr<worker::Objective> task)>
      wrap_objective;
  std::string teacher_fingerprint;
  double label_smoothing = 0;
  uint64_t seed = 5;
  int64_t samples = 103;  // divides by nothing
  uint64_t batch_size = 20;
  worker::Recipe recipe;  // total_steps and so on
  std::string root;       // checkpoint folder
  CheckpointRoot holder;  // in which that lies
  uint32_t attempt = 1;
  std::vector<CheckpointCandidate> candidates;
  worker::RequestedStop requested;  // of the last rank alone
  int64_t requested_after_step = -1;
  bool requested_in_evaluation = false;
  bool sync_batch_norm = false;
  std::function<void()> before_commit;  // on the thread that waits for it
  // Of any rank, on its thread, in the phase that it was last in.
  std::function<void(int rank, const std::string& phase)> on_beat;
  std::function<worker::RequestedStop(int rank)> ask;  // instead of what the last rank is asked
  // No commit before a save superseded another, or a minute is over.
  bool commit_when_superseded = false;
};

struct RankOutcome {
  absl::StatusOr<worker::TrainResult> result = absl::UnknownError("did not run");
  std::map<std::string, at::Tensor> weights;  // at the end: parameters and buffers
  FakeRunHost host;
};

struct RunOutcome {
  std::vector<RankOutcome> ranks;
  std::vector<worker::CheckpointNews> committed;
};

// `at_start` (may be empty) is called on each rank with its model before training.
RunOutcome RunTraining(const TrainingRun& run,
                       const std::function<void(worker::Model&)>& at_start = nullptr);

// Runs `run` until it is stopped after `step`, saving, and makes it the next attempt, which goes on
// from there. A fatal failure of the test when it did not stop, or had no steps left to go.
void StopAfter(int64_t step, TrainingRun& run);

// All weights of rank 0.
void ExpectSameBits(const RunOutcome& a, const RunOutcome& b);
// All weights of all ranks.
void ExpectSameBitsOnAllRanks(const RunOutcome& run);

}  // namespace muster::testing
