// What a run does before its first step where it has no checkpoint to go on from.
//
// Used by the loop, and by the checks of a recipe, which begin where a run would.
#pragma once

#include "absl/status/statusor.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/recipe/transfer.h"

namespace muster::worker {

// All must outlive the call; the last three may be none.
struct FreshStart {
  Model& model;
  Collectives& gang;
  const Transfer* transfer;
  Ema* ema;
  Pruner* pruner;
};

// Loads the weights that the recipe names, begins the averages at them, and prunes what is to be
// zero from the start. Tells what was loaded; nothing without a transfer. All ranks call it.
// START_FAILED as Transfer::Load; throws what torch throws.
absl::StatusOr<TransferSummary> StartFresh(const FreshStart& parts);

}  // namespace muster::worker
