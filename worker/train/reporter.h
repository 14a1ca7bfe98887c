// Turns steps into the numbers that people see: means over a report interval, by the metrics'
// names.
//
// Rank 0 reports for the gang (loss, rate, accuracy); every rank reports what differs between ranks
// (its own rate, the split of its step time, its memory). One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "c10/core/Device.h"
#include "common/base/deadline.h"
#include "worker/data/loader.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/objective/objective.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/run/data_limit.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_host.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/agreement.h"
#include "worker/train/step/batch_feed.h"
#include "worker/train/step/evaluate.h"
#include "worker/train/step/step_timer.h"

namespace muster::worker {

class Reporter {
 public:
  // Both must outlive it.
  Reporter(const Trainer& trainer, RunHost& host);

  StepTimer& timer() { return timer_; }

  void Phase(const std::string& phase, const RunState& run);

  // The phase goes on. Call as often as you like: it is said once a second.
  void KeepAlive();

  // What a step that waits for its batch asks: it says that the rank is alive, in a phase of its
  // own after a second, and to wait on unless the rank was asked to stop. `run` must outlive it.
  GoesOn WhileWaiting(const RunState& run);

  // Before the first step: to the log at once, and with each report as "memory_estimate_bytes". Not
  // as a report of its own: after a resume that would hide what was said of that step before.
  void MemoryEstimated(const MemoryEstimate& estimate);

  // After each step. Says where the rank is at least every second or so; sends the interval's
  // numbers when `report`. After the last step of a run the log has a sentence on how its data kept
  // up.
  void StepDone(const RunState& run, const std::optional<Batch>& batch, const StepResult& result,
                bool report);

  // After an evaluation, as "<split>_loss", where they say something "<split>_accuracy" and
  // "<split>_top5_accuracy", and what the objective derives from the loss. Rank 0 only; the others
  // stay silent.
  void Evaluated(const RunState& run, Split split, const Evaluation& evaluation);

  // What a transfer brought, as counts of tensors. Rank 0 only.
  void Transferred(const TransferSummary& summary);

 private:
  std::map<std::string, double> Values(const RunState& run, const StepResult& result) const;
  // Of the interval: without saves and evaluations, which stand apart.
  double TrainingSeconds() const;

  void EndInterval();

  const Recipe& recipe_;
  const Objective& objective_;
  RunHost& host_;
  const int rank_;
  const c10::Device device_;
  StepTimer timer_;
  StageSeconds busy_;     // since the last report
  DataTimes data_times_;  // of all intervals before
  int64_t steps_ = 0;     // since the last report
  int64_t rank_samples_ = 0;
  int64_t gang_samples_ = 0;
  double seconds_unsaid_ = 0;  // since the last sign of life
  double seconds_seen_ = 0;    // of the timer, at the last step
  bool first_ = true;
  bool waits_ = false;  // for data, as was said
  Deadline silence_{
      absl::ZeroDuration()};  // until it is over, nothing is said of a phase that goes on
  int64_t memory_estimate_bytes_ = 0;
};

}  // namespace muster::worker
