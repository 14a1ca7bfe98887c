#include "worker/train/assess.h"

#include "worker/train/run/best.h"

namespace muster::worker {

Evaluation Assess(Split split, const Recipe& recipe, const TrainParts& parts, Reporter& reporter,
                  const RunState& run) {
  reporter.Phase("evaluate", run);
  const EmaScope averaged(parts.ema);
  const auto look = [&] {
    reporter.StillAtIt();
    return parts.supervisor.stop_wish();
  };
  const Evaluation evaluation =
      Evaluate(split, {recipe, parts.loader, parts.model, parts.objective, parts.gang, parts.device,
                       /*confusion=*/split == Split::kTest && recipe.count_confusion, look});
  if (!evaluation.wish.stop) reporter.Evaluated(run, split, evaluation);
  return evaluation;
}

bool Validate(const Recipe& recipe, const TrainParts& parts, Reporter& reporter, RunState& run,
              RequestedStop& leave) {
  const Evaluation evaluation = Assess(Split::kValidation, recipe, parts, reporter, run);
  reporter.timer().Mark(StepPart::kEvaluate);
  if (evaluation.wish.stop) {
    run.validation_owed = true;
    leave = evaluation.wish;
    return false;
  }
  return TakeValidation({evaluation.accuracy(), evaluation.loss}, parts.objective.accuracy_leads(),
                        recipe.best_from_step, run);
}

}  // namespace muster::worker
