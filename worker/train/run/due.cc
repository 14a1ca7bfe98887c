#include "worker/train/run/due.h"

#include "worker/train/run/cadence.h"

namespace muster::worker {

Due DueAfter(const Recipe& recipe, const RunState& before, const RunState& run) {
  const bool last = run.step == recipe.total_steps;
  Due due;
  due.report = last || DueBySteps(run.step, recipe.report_every_steps);
  due.validate = last || DueBySteps(run.step, recipe.validate_every_steps) ||
                 DueByEpochs(before.epoch, run.epoch, recipe.validate_every_epochs);
  due.save = last || DueBySteps(run.step, recipe.save_every_steps) ||
             DueByEpochs(before.epoch, run.epoch, recipe.save_every_epochs);
  due.validate |= due.save && recipe.validate_before_save;
  return due;
}

RequestedStop SaveClock::AddTo(RequestedStop requested) {
  if (every_ <= absl::ZeroDuration() || requested.stop) return requested;
  if (absl::FromChrono(Clock::now() - last_) < every_) return requested;
  Restart();
  requested.save = true;
  return requested;
}

}  // namespace muster::worker
