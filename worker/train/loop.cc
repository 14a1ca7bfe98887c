#include "worker/train/loop.h"

#include "common/base/status_macros.h"
#include "worker/train/assess.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/recipe/fresh_start.h"
#include "worker/train/reporter.h"
#include "worker/train/run/due.h"
#include "worker/train/run/failure.h"
#include "worker/train/run_failures.h"
#include "worker/train/step/device_feed.h"
#include "worker/train/step/step.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

// The test set is read once, with the weights that validation chose.
absl::StatusOr<TrainResult> Conclude(const Recipe& recipe, const TrainParts& parts,
                                     Reporter& reporter, const RunState& run) {
  reporter.Phase("save", run);
  MUSTER_RETURN_IF_ERROR(parts.checkpoints.Finish(recipe.commit_timeout));
  if (run.best_step < 0) return NothingBest(run);
  MUSTER_RETURN_IF_ERROR(parts.checkpoints.LoadBest(run));
  const Evaluation test = Assess(Split::kTest, recipe, parts, reporter, run);
  if (test.wish.stop) return TrainResult{.stopped = true};
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

// A run between two of its steps.
struct Course {
  const Recipe& recipe;
  const TrainParts& parts;
  Reporter& reporter;
  const TrainStep& train_step;
  SaveClock& save_clock;
  RunState& run;
};

// What follows a step: a validation and a save. Returns the wish to leave, if the ranks agree on
// it.
RequestedStop Close(const Course& course, const Due& due, const RequestedStop& wish) {
  const auto& [recipe, parts, reporter, train_step, save_clock, run] = course;
  RequestedStop leave = wish.stop ? wish : RequestedStop();
  const bool best = due.validate && Validate(recipe, parts, reporter, run, leave);
  bool urgent = leave.stop && leave.save;
  const bool by_time = wish.save && !wish.stop;
  if (due.save || best || urgent || by_time) {
    save_clock.Restart();
    if (!urgent && run.step == recipe.total_steps)
      urgent = !parts.checkpoints.Drain(recipe.commit_timeout);
    run.loss_scale = train_step.loss_scale();
    parts.checkpoints.Save(run, best, urgent);
    reporter.timer().Mark(StepPart::kSave);
  }
  parts.checkpoints.Poll();
  return leave;
}

absl::StatusOr<TrainResult> Leave(const Course& course, const RequestedStop& leave) {
  if (leave.save) {
    course.reporter.Phase("save", course.run);
    MUSTER_RETURN_IF_ERROR(course.parts.checkpoints.Finish(course.recipe.commit_timeout));
  }
  return TrainResult{.stopped = true};
}

// `memory` is there for the message of a run that does not fit.
absl::StatusOr<TrainResult> Run(const Recipe& recipe, const TrainParts& parts,
                                MemoryEstimate& memory) {
  Reporter reporter(recipe, parts.objective, parts.supervisor, parts.gang.rank(), parts.device);
  reporter.Phase("load", RunState());
  MUSTER_ASSIGN_OR_RETURN(RunState run, parts.checkpoints.Restore());
  // Of its own it would have been validated by then.
  const bool at_end = run.step > 0 && run.step >= recipe.total_steps;
  const bool validated = run.validation_step >= 0 || run.validation_owed;
  if (at_end && !validated) return NothingLeft(run.step, recipe);
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
  const Course course = {recipe, parts, reporter, train_step, save_clock, run};
  if (run.validation_owed) {
    const RequestedStop leave = Close(course, {.validate = true}, RequestedStop());
    if (leave.stop) return Leave(course, leave);
  }
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

    const RequestedStop leave = Close(course, due, verdict.wish);
    for (Artifact* artifact : parts.artifacts) artifact->AfterStep(run.step);
    timer.Mark(StepPart::kOther);
    if (leave.stop) return Leave(course, leave);
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
