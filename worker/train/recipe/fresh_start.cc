#include "worker/train/recipe/fresh_start.h"

#include "common/base/status_macros.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"

namespace muster::worker {

absl::StatusOr<TransferSummary> StartFresh(const Trainer& trainer) {
  TransferSummary summary;
  if (trainer.transfer != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(summary, trainer.transfer->Load(trainer.model, trainer.gang));
  }
  if (trainer.ema != nullptr) trainer.ema->Start();
  if (trainer.pruner != nullptr) trainer.pruner->AfterStep(0);
  return summary;
}

}  // namespace muster::worker
