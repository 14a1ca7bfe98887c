#include "worker/train/run/best.h"

#include <cmath>

namespace muster::worker {
namespace {

bool IsBetter(const Validated& validated, bool accuracy_leads, int64_t from_step,
              const RunState& run) {
  if (std::isnan(validated.loss) || std::isnan(validated.accuracy)) return false;
  if (run.best_step < 0 || run.best_step < from_step) return true;
  const bool by_loss = !accuracy_leads || validated.accuracy == run.best_accuracy;
  return by_loss ? validated.loss < run.best_loss : validated.accuracy > run.best_accuracy;
}

}  // namespace

bool TakeValidation(const Validated& validated, bool accuracy_leads, int64_t from_step,
                    RunState& run) {
  run.validation_step = run.step;
  run.validation_accuracy = validated.accuracy;
  run.validation_loss = validated.loss;
  run.validation_owed = false;
  if (!IsBetter(validated, accuracy_leads, from_step, run)) return false;
  run.best_step = run.step;
  run.best_accuracy = validated.accuracy;
  run.best_loss = validated.loss;
  return true;
}

}  // namespace muster::worker
