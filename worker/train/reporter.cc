#include "worker/train/reporter.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "worker/train/memory/memory_probe.h"

namespace muster::worker {
namespace {

constexpr double kSignOfLifeSeconds = 1.0;

}  // namespace

Reporter::Reporter(const Trainer& trainer, RunHost& host)
    : recipe_(trainer.recipe),
      objective_(trainer.objective),
      host_(host),
      rank_(trainer.gang.rank()),
      device_(trainer.device),
      timer_(trainer.device) {
  data_times_.threads = trainer.loader.ahead().threads;
}

void Reporter::Phase(const std::string& phase, const RunState& run) {
  host_.Progress(phase, run.step, recipe_.total_steps, run.epoch);
}

void Reporter::KeepAlive() {
  if (!silence_.over()) return;
  silence_ = Deadline(absl::Seconds(kSignOfLifeSeconds));
  host_.KeepAlive();
}

GoesOn Reporter::WhileWaiting(const RunState& run) {
  return [this, &run](absl::Duration waited) {
    if (waited >= absl::Seconds(kSignOfLifeSeconds) && !waits_) {
      waits_ = true;
      Phase("waiting for data", run);
    }
    KeepAlive();
    return !host_.requested_stop().stop;
  };
}

void Reporter::MemoryEstimated(const MemoryEstimate& estimate) {
  memory_estimate_bytes_ = estimate.total();
  host_.MemoryEstimated(MemoryNeed(estimate, recipe_));
  Log(LogLevel::kInfo, "memory_estimate",
      {{"total_bytes", estimate.total()},
       {"program_bytes", estimate.program},
       {"data_bytes", estimate.data},
       {"weights_bytes", estimate.weights},
       {"gradients_bytes", estimate.gradients},
       {"optimizer_bytes", estimate.optimizer},
       {"average_bytes", estimate.average},
       {"checkpoint_bytes", estimate.checkpoint},
       {"activations_bytes", estimate.activations},
       {"holes_bytes", estimate.holes}});
}

void Reporter::StepDone(const RunState& run, const std::optional<Batch>& batch,
                        const StepResult& result, bool report) {
  timer_.Mark(StepPart::kOther);
  ++steps_;
  if (batch.has_value()) {
    rank_samples_ += batch->count;
    gang_samples_ += batch->global_count;
    busy_ += batch->busy;
  }
  seconds_unsaid_ += timer_.total_seconds() - seconds_seen_;
  seconds_seen_ = timer_.total_seconds();
  if (report) host_.Metrics(run.step, Values(run, result));
  if (report || first_ || waits_ || seconds_unsaid_ > kSignOfLifeSeconds) {
    Phase("train", run);
    first_ = waits_ = false;
    seconds_unsaid_ = 0;
  }
  if (report) EndInterval();
  if (run.step == recipe_.total_steps) {
    Log(LogLevel::kInfo, "data_limit",
        {{"text", DataLimitText(data_times_)},
         {"seconds", data_times_.seconds},
         {"wait_seconds", data_times_.wait_seconds},
         {"read_seconds", data_times_.busy.read},
         {"decode_seconds", data_times_.busy.decode},
         {"augment_seconds", data_times_.busy.augment},
         {"threads", data_times_.threads}});
  }
}

void Reporter::EndInterval() {
  data_times_.seconds += TrainingSeconds();
  data_times_.wait_seconds += timer_.seconds(StepPart::kData);
  data_times_.busy += busy_;
  busy_ = {};
  timer_.Reset();
  steps_ = rank_samples_ = gang_samples_ = 0;
  seconds_seen_ = 0;
}

double Reporter::TrainingSeconds() const {
  return timer_.total_seconds() - timer_.seconds(StepPart::kSave) -
         timer_.seconds(StepPart::kEvaluate);
}

void Reporter::Evaluated(const RunState& run, Split split, const Evaluation& evaluation) {
  if (rank_ != 0) return;
  const std::string name = SplitName(split);
  std::map<std::string, double> values = {{absl::StrCat(name, "_loss"), evaluation.loss}};
  if (objective_.has_accuracy()) values[absl::StrCat(name, "_accuracy")] = evaluation.accuracy();
  if (evaluation.top5_accuracy.has_value())
    values[absl::StrCat(name, "_top5_accuracy")] = *evaluation.top5_accuracy;
  for (const auto& [what, value] : objective_.Derived(evaluation.loss))
    values[absl::StrCat(name, "_", what)] = value;
  host_.Metrics(run.step, values);
}

void Reporter::Transferred(const TransferSummary& summary) {
  if (rank_ != 0) return;
  host_.Metrics(0, {{"transfer_loaded_tensors", static_cast<double>(summary.loaded)},
                    {"transfer_fresh_tensors", static_cast<double>(summary.fresh)},
                    {"transfer_reshaped_tensors", static_cast<double>(summary.reshaped)},
                    {"transfer_unused_tensors", static_cast<double>(summary.unused)}});
}

std::map<std::string, double> Reporter::Values(const RunState& run,
                                               const StepResult& result) const {
  const double steps = static_cast<double>(steps_);
  const auto mean = [&](StepPart part) { return timer_.seconds(part) / steps; };
  const double seconds = TrainingSeconds();
  const MemoryUse memory = MeasureMemory(device_);
  std::map<std::string, double> values = {
      {"rank_samples_per_second", seconds > 0 ? static_cast<double>(rank_samples_) / seconds : 0},
      {"step_seconds", seconds / steps},
      {"data_seconds", mean(StepPart::kData)},
      {"forward_backward_seconds", mean(StepPart::kForwardBackward)},
      {"communication_seconds", mean(StepPart::kCommunication)},
      {"optimizer_seconds", mean(StepPart::kOptimizer)},
      {"save_stall_seconds", mean(StepPart::kSave)},
      {"memory_bytes", static_cast<double>(memory.now_bytes)},
      {"memory_estimate_bytes", static_cast<double>(memory_estimate_bytes_)},
      {"memory_peak_bytes", static_cast<double>(memory.peak_bytes)},
  };
  if (data_times_.threads > 0) {
    values["data_read_seconds"] = busy_.read / steps;
    values["data_decode_seconds"] = busy_.decode / steps;
    values["data_augment_seconds"] = busy_.augment / steps;
  }
  if (rank_ != 0) return values;
  // A step that was skipped for its overflow may have neither.
  if (std::isfinite(result.loss)) values["loss"] = result.loss;
  if (std::isfinite(result.grad_norm)) values["grad_norm"] = result.grad_norm;
  if (objective_.has_accuracy()) values["train_accuracy"] = result.accuracy;
  if (result.loss_scale > 0) {
    values["loss_scale"] = result.loss_scale;
    values["skipped_steps"] = static_cast<double>(result.skipped_steps);
  }
  values["lr"] = LearningRate(recipe_.schedule, run.step - 1);
  values["samples_per_second"] = seconds > 0 ? static_cast<double>(gang_samples_) / seconds : 0;
  values["epoch"] = run.epoch;
  return values;
}

}  // namespace muster::worker
