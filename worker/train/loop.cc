#include "worker/train/loop.h"

#include <optional>

#include "common/base/status_macros.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/fresh_start.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/reporter.h"
#include "worker/train/run/best.h"
#include "worker/train/run/due.h"
#include "worker/train/run/failure.h"
#include "worker/train/run_failures.h"
#include "worker/train/step/batch_feed.h"
#include "worker/train/step/evaluate.h"
#include "worker/train/step/step.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

class TrainingLoop {
 public:
  TrainingLoop(const Trainer& trainer, Checkpoints& checkpoints, RunHost& host,
               const std::vector<Artifact*>& artifacts)
      : trainer_(trainer),
        recipe_(trainer.recipe),
        checkpoints_(checkpoints),
        host_(host),
        artifacts_(artifacts),
        reporter_(trainer, host),
        save_clock_(trainer.gang.rank() == 0 ? recipe_.save_every : absl::ZeroDuration()) {}

  // `memory` is there for the message of a run that does not fit.
  absl::StatusOr<TrainResult> Run(MemoryEstimate& memory);

 private:
  absl::StatusOr<RequestedStop> Begin(MemoryEstimate& memory);
  absl::Status Load();
  absl::Status StartFromScratch();
  absl::StatusOr<RequestedStop> Step();
  absl::StatusOr<RequestedStop> ValidateAndSave(const Due& due, const RequestedStop& requested);
  absl::StatusOr<bool> Validate(RequestedStop& requested);
  absl::StatusOr<Evaluation> EvaluateSplit(Split split);
  absl::StatusOr<TrainResult> StopEarly(bool save);
  absl::StatusOr<TrainResult> TestBest();

  const Trainer& trainer_;
  const Recipe& recipe_;
  Checkpoints& checkpoints_;
  RunHost& host_;
  const std::vector<Artifact*>& artifacts_;
  Reporter reporter_;
  SaveClock save_clock_;
  std::optional<TrainStep> train_step_;
  std::optional<BatchFeed> batches_;
  RunState run_;  // where the run stands between two steps
};

// Each part is guarded by itself, and fails with its failure class: a run ends with the first one.
absl::StatusOr<TrainResult> TrainingLoop::Run(MemoryEstimate& memory) {
  MUSTER_ASSIGN_OR_RETURN(RequestedStop requested, TorchGuardOr([&] { return Begin(memory); }));
  while (!requested.stop && run_.step < recipe_.total_steps) {
    MUSTER_ASSIGN_OR_RETURN(requested, TorchGuardOr([this] { return Step(); }));
  }
  return TorchGuardOr([&] { return requested.stop ? StopEarly(requested.save) : TestBest(); });
}

// Everything before the first step. Returns a stop that all ranks agree on.
absl::StatusOr<RequestedStop> TrainingLoop::Begin(MemoryEstimate& memory) {
  MUSTER_RETURN_IF_ERROR(Load());
  memory = CountMemory(trainer_);
  const absl::Status rehearsed =
      Rehearse(trainer_, run_.rehearsed, memory, reporter_.WhileWaiting(run_));
  if (absl::IsCancelled(rehearsed)) return RequestedStop{.stop = true};  // nothing is done yet
  MUSTER_RETURN_IF_ERROR(rehearsed);
  reporter_.MemoryEstimated(memory);
  train_step_.emplace(trainer_);
  train_step_->RestoreLossScale(run_.loss_scale);
  save_clock_.Restart();
  RequestedStop requested;
  if (run_.validation_owed) {
    MUSTER_ASSIGN_OR_RETURN(requested, ValidateAndSave({.validate = true}, RequestedStop()));
    if (requested.stop) return requested;
  }
  batches_.emplace(trainer_, run_.step);
  reporter_.Phase("train", run_);
  reporter_.timer().Mark(StepPart::kOther);
  reporter_.timer().Reset();
  return requested;
}

// One step of the run, and what is due after it. Returns a stop that all ranks agree on.
absl::StatusOr<RequestedStop> TrainingLoop::Step() {
  StepTimer& timer = reporter_.timer();
  MUSTER_ASSIGN_OR_RETURN(const std::optional<Batch> batch,
                          batches_->Next(reporter_.WhileWaiting(run_)));
  timer.Mark(StepPart::kData);
  const RunState before = run_;
  run_.step += 1;
  run_.epoch = trainer_.loader.sampler().EpochAt(static_cast<uint64_t>(run_.step));
  const Due due = DueAfter(recipe_, before, run_);

  // Forward, backward, agreement, unscale, clip, update. What is due after it must know how this
  // very step went; otherwise a device may run one step ahead of the host.
  MUSTER_ASSIGN_OR_RETURN(
      const StepResult result,
      train_step_->Run(before.step, batch, save_clock_.AddTo(host_.requested_stop()),
                       /*settle=*/due.report || due.validate || due.save, timer));
  if (result.left_off) {
    run_ = before;
    return ValidateAndSave({}, result.requested);
  }
  if (!result.finite) return NonFinite(result);
  if (trainer_.ema != nullptr) trainer_.ema->Update(run_.step);
  if (trainer_.pruner != nullptr) trainer_.pruner->AfterStep(run_.step);
  reporter_.StepDone(run_, batch, result, due.report);

  MUSTER_ASSIGN_OR_RETURN(const RequestedStop requested, ValidateAndSave(due, result.requested));
  for (Artifact* artifact : artifacts_) artifact->AfterStep(run_.step);
  timer.Mark(StepPart::kOther);
  return requested;
}

// Restores the newest checkpoint, or begins a fresh run.
absl::Status TrainingLoop::Load() {
  reporter_.Phase("load", RunState());
  MUSTER_ASSIGN_OR_RETURN(run_, checkpoints_.Restore());
  // Of its own it would have been validated by then.
  const bool at_end = run_.step > 0 && run_.step >= recipe_.total_steps;
  const bool validated = run_.validation_step >= 0 || run_.validation_owed;
  if (at_end && !validated) return NothingLeft(run_.step, recipe_);
  return run_.step == 0 ? StartFromScratch() : absl::OkStatus();
}

absl::Status TrainingLoop::StartFromScratch() {
  MUSTER_ASSIGN_OR_RETURN(const TransferSummary summary, StartFresh(trainer_));
  if (trainer_.transfer == nullptr) return absl::OkStatus();
  checkpoints_.SetWeightsFingerprint(summary.fingerprint);
  reporter_.Transferred(summary);
  return absl::OkStatus();
}

// What follows a step, in which the ranks agreed on `requested`. Returns a stop that all of them
// agree on, by that or during the validation.
absl::StatusOr<RequestedStop> TrainingLoop::ValidateAndSave(const Due& due,
                                                            const RequestedStop& requested) {
  RequestedStop stop = requested.stop ? requested : RequestedStop();
  bool best = false;
  if (due.validate) {
    MUSTER_ASSIGN_OR_RETURN(best, Validate(stop));
  }
  bool urgent = stop.stop && stop.save && run_.step > 0;
  const bool by_time = requested.save && !requested.stop;
  if (due.save || best || urgent || by_time) {
    save_clock_.Restart();
    if (!urgent && run_.step == recipe_.total_steps) {
      MUSTER_ASSIGN_OR_RETURN(const bool drained, checkpoints_.Drain(recipe_.commit_timeout));
      urgent = !drained;
    }
    run_.loss_scale = train_step_->loss_scale();
    MUSTER_RETURN_IF_ERROR(checkpoints_.Save(run_, best, urgent));
    reporter_.timer().Mark(StepPart::kSave);
  }
  checkpoints_.Poll();
  return stop;
}

// Returns whether the model is the best one so far. Where some rank was asked to stop, the
// validation is left off and owed, and `requested` says so.
absl::StatusOr<bool> TrainingLoop::Validate(RequestedStop& requested) {
  MUSTER_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateSplit(Split::kValidation));
  reporter_.timer().Mark(StepPart::kEvaluate);
  if (evaluation.requested.stop) {
    run_.validation_owed = true;
    requested = evaluation.requested;
    return false;
  }
  return TakeValidation({evaluation.accuracy(), evaluation.loss},
                        trainer_.objective.accuracy_leads(), recipe_.best_from_step, run_);
}

// With the averaged weights where there are such. Reported, unless some rank was asked to stop.
absl::StatusOr<Evaluation> TrainingLoop::EvaluateSplit(Split split) {
  reporter_.Phase("evaluate", run_);
  const EmaScope averaged(trainer_.ema);
  EvaluationOptions options;
  options.confusion = split == Split::kTest && recipe_.count_confusion;
  options.requested = [this] {
    reporter_.KeepAlive();
    return host_.requested_stop();
  };
  MUSTER_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(split, trainer_, options));
  if (!evaluation.requested.stop) reporter_.Evaluated(run_, split, evaluation);
  return evaluation;
}

absl::StatusOr<TrainResult> TrainingLoop::StopEarly(bool save) {
  if (save) {
    reporter_.Phase("save", run_);
    MUSTER_RETURN_IF_ERROR(checkpoints_.Finish(recipe_.commit_timeout));
  }
  return TrainResult{.stopped = true};
}

// The test set is read once, with the weights that validation chose.
absl::StatusOr<TrainResult> TrainingLoop::TestBest() {
  reporter_.Phase("save", run_);
  MUSTER_RETURN_IF_ERROR(checkpoints_.Finish(recipe_.commit_timeout));
  if (run_.best_step < 0) return NothingBest(run_);
  MUSTER_RETURN_IF_ERROR(checkpoints_.LoadBest(run_));
  MUSTER_ASSIGN_OR_RETURN(const Evaluation test, EvaluateSplit(Split::kTest));
  if (test.requested.stop) return TrainResult{.stopped = true};
  for (Artifact* artifact : artifacts_) artifact->AfterTest(test);
  reporter_.Phase("done", run_);
  TrainResult result;
  for (const auto& [name, value] : trainer_.objective.Derived(test.loss)) {
    result.results["test_" + name] = value;
  }
  if (trainer_.objective.has_accuracy()) {
    result.results.insert(
        {{"test_accuracy", test.accuracy()}, {"validation_accuracy", run_.best_accuracy}});
  }
  result.results.insert({{"test_loss", test.loss},
                         {"best_step", static_cast<double>(run_.best_step)},
                         {"final_step", static_cast<double>(run_.step)}});
  if (trainer_.pruner != nullptr) result.results["sparsity"] = trainer_.pruner->Sparsity();
  if (test.top5_accuracy.has_value()) result.results["test_top5_accuracy"] = *test.top5_accuracy;
  return result;
}

}  // namespace

absl::StatusOr<TrainResult> Train(const Trainer& trainer, Checkpoints& checkpoints, RunHost& host,
                                  const std::vector<Artifact*>& artifacts) {
  MemoryEstimate memory;
  absl::StatusOr<TrainResult> result =
      TrainingLoop(trainer, checkpoints, host, artifacts).Run(memory);
  if (FailureClassOf(result.status()) == kOutOfMemory)
    return OutOfMemory(result.status(), memory, trainer.recipe);
  return result;
}

}  // namespace muster::worker
