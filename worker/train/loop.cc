#include "worker/train/loop.h"

#include "common/base/status_macros.h"
#include "worker/train/device_feed.h"
#include "worker/train/due.h"
#include "worker/train/evaluate.h"
#include "worker/train/failure.h"
#include "worker/train/fresh_start.h"
#include "worker/train/memory_estimate.h"
#include "worker/train/reporter.h"
#include "worker/train/run_failures.h"
#include "worker/train/step.h"
#include "worker/train/torch_guard.h"

namespace muster::worker {
namespace {

Evaluation Assess(Split split, const Recipe& recipe, const TrainParts& parts, Reporter& reporter,
                  const RunState& run) {
  reporter.Phase("evaluate", run);
  const EmaScope averaged(parts.ema);
  const Evaluation evaluation =
      Evaluate(split, {recipe, parts.loader, parts.model, parts.objective, parts.gang, parts.device,
                       /*confusion=*/split == Split::kTest && recipe.count_confusion});
  reporter.Evaluated(run, split, evaluation);
  return evaluation;
}

// Returns whether the model is the best one so far.
bool Validate(const Recipe& recipe, const TrainParts& parts, Reporter& reporter, RunState& run) {
  const Evaluation evaluation = Assess(Split::kValidation, recipe, parts, reporter, run);
  run.validation_step = run.step;
  run.validation_accuracy = evaluation.accuracy();
  run.validation_loss = evaluation.loss;
  const bool by_loss =
      !parts.objective.accuracy_leads() || run.validation_accuracy == run.best_accuracy;
  const bool better =
      run.best_step < recipe.best_from_step ||
      (by_loss ? run.validation_loss < run.best_loss : run.validation_accuracy > run.best_accuracy);
  if (better) {
    run.best_step = run.step;
    run.best_accuracy = run.validation_accuracy;
    run.best_loss = run.validation_loss;
  }
  reporter.timer().Mark(StepPart::kEvaluate);
  return better;
}

// The test set is read once, with the weights that validation chose.
absl::StatusOr<TrainResult> Conclude(const Recipe& recipe, const TrainParts& parts,
                                     Reporter& reporter, const RunState& run) {
  reporter.Phase("save", run);
  MUSTER_RETURN_IF_ERROR(parts.checkpoints.Finish(recipe.commit_timeout));
  MUSTER_RETURN_IF_ERROR(parts.checkpoints.LoadBest(run));
  const Evaluation test = Assess(Split::kTest, recipe, parts, reporter, run);
  for (Artifact* artifact : parts.artifacts) artifact->AfterTest(test);
  reporter.Phase("done", run);
  TrainResult result;
  for (const auto& [name, value] : parts.objective.Derived(test.loss)) {
    result.results["test_" + name] = value;
  }
  if (parts.objective.has_accuracy()) {
    result.results.insert(
        {{"test_accuracy", test.accuracy()}, {"validation_accuracy", run.best_accuracy}});
  }
  result.results.insert({{"test_loss", test.loss},
                         {"best_step", static_cast<double>(run.best_step)},
                         {"final_step", static_cast<double>(run.step)}});
  if (parts.pruner != nullptr) result.results["sparsity"] = parts.pruner->Sparsity();
  if (test.top5_accuracy.has_value()) result.results["test_top5_accuracy"] = *test.top5_accuracy;
  return result;
}

absl::Status Begin(const TrainParts& parts, Reporter& reporter) {
  MUSTER_ASSIGN_OR_RETURN(
      const TransferSummary summary,
      StartFresh({parts.model, parts.gang, parts.transfer, parts.ema, parts.pruner}));
  if (parts.transfer == nullptr) return absl::OkStatus();
  parts.checkpoints.SetWeightsFingerprint(summary.fingerprint);
  reporter.Transferred(summary);
  return absl::OkStatus();
}

// `memory` is there for the message of a run that does not fit.
absl::StatusOr<TrainResult> Run(const Recipe& recipe, const TrainParts& parts,
                                MemoryEstimate& memory) {
  Reporter reporter(recipe, parts.objective, parts.supervisor, parts.gang.rank(), parts.device);
  reporter.Phase("load", RunState());
  MUSTER_ASSIGN_OR_RETURN(RunState run, parts.checkpoints.Restore());
  // Of its own it would have a best one by then.
  const bool at_end = run.step > 0 && run.step >= recipe.total_steps;
  if (at_end && run.best_step < 0) return NothingLeft(run.step, recipe);
  if (run.step == 0) MUSTER_RETURN_IF_ERROR(Begin(parts, reporter));
  const EstimateParts estimate = {recipe,          parts.loader,    parts.model,
                                  parts.objective, parts.optimizer, parts.gang,
                                  parts.device,    parts.ema,       parts.pruner};
  memory = CountMemory(estimate);
  MeasureActivations(estimate, memory);
  reporter.MemoryEstimated(memory);
  TrainStep train_step(recipe,
                       {parts.model, parts.objective, parts.optimizer, parts.gang, parts.device});
  train_step.RestoreLossScale(run.loss_scale);
  const Sampler& sampler = parts.loader.sampler();
  const uint32_t rank = static_cast<uint32_t>(parts.gang.rank());
  const uint32_t world = static_cast<uint32_t>(parts.gang.world_size());
  StepTimer& timer = reporter.timer();
  DeviceFeed feed(parts.device);
  SaveClock save_clock(rank == 0 ? recipe.save_every : absl::ZeroDuration());
  reporter.Phase("train", run);
  timer.Mark(StepPart::kOther);
  timer.Reset();

  while (run.step < recipe.total_steps) {
    const RunState before = run;
    run.step += 1;
    run.epoch = sampler.EpochAt(static_cast<uint64_t>(run.step));
    const Due due = DueAfter(recipe, before, run);

    const Batch batch =
        feed.Bring(parts.loader.TrainBatch(static_cast<uint64_t>(before.step), rank, world));
    timer.Mark(StepPart::kData);

    // What follows must know how this very step went; otherwise a device may run one step ahead of
    // the host.
    const bool settle = due.report || due.validate || due.save;
    const Verdict verdict = train_step.Run(
        before.step, batch, save_clock.AddTo(parts.supervisor.stop_wish()), settle, timer);
    if (!verdict.finite) return NonFinite(verdict);
    if (parts.ema != nullptr) parts.ema->Update(run.step);
    if (parts.pruner != nullptr) parts.pruner->AfterStep(run.step);
    reporter.StepDone(run, batch, verdict, due.report);

    const bool best = due.validate && Validate(recipe, parts, reporter, run);
    const bool leave_saved = verdict.wish.stop && verdict.wish.save;
    const bool by_time = verdict.wish.save && !verdict.wish.stop;
    if (due.save || best || leave_saved || by_time) {
      save_clock.Restart();
      if (leave_saved || run.step == recipe.total_steps)
        parts.checkpoints.Drain(recipe.commit_timeout);
      run.loss_scale = train_step.loss_scale();
      parts.checkpoints.Save(run, best);
      timer.Mark(StepPart::kSave);
    }
    parts.checkpoints.Poll();
    for (Artifact* artifact : parts.artifacts) artifact->AfterStep(run.step);
    timer.Mark(StepPart::kOther);

    if (verdict.wish.stop) {
      if (!leave_saved) return TrainResult{.stopped = true};
      reporter.Phase("save", run);
      MUSTER_RETURN_IF_ERROR(parts.checkpoints.Finish(recipe.commit_timeout));
      return TrainResult{.stopped = true};
    }
  }
  return Conclude(recipe, parts, reporter, run);
}

}  // namespace

absl::StatusOr<TrainResult> Train(const Recipe& recipe, const TrainParts& parts) {
  MemoryEstimate memory;
  absl::StatusOr<TrainResult> result = TorchGuardOr([&] { return Run(recipe, parts, memory); });
  if (FailureClassOf(result.status()) == kOutOfMemory)
    return OutOfMemory(result.status(), memory, recipe);
  return result;
}

}  // namespace muster::worker
