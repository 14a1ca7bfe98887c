#include "worker/train/recipe/fresh_start.h"

#include "common/base/status_macros.h"

namespace muster::worker {

absl::StatusOr<TransferSummary> StartFresh(const FreshStart& parts) {
  TransferSummary summary;
  if (parts.transfer != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(summary, parts.transfer->Load(parts.model, parts.gang));
  }
  if (parts.ema != nullptr) parts.ema->Start();
  if (parts.pruner != nullptr) parts.pruner->AfterStep(0);
  return summary;
}

}  // namespace muster::worker
