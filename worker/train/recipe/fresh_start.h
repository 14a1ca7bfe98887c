// What a run does before its first step where it has no checkpoint to go on from.
//
// Used by the loop, and by the checks of a recipe, which begin where a run would.
#pragma once

#include "absl/status/statusor.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

// Loads the weights that the recipe names, begins the averages at them, and prunes what is to be
// zero from the start. Tells what was loaded; nothing without a transfer. All ranks call it.
// START_FAILED as Transfer::Load; throws what torch throws.
absl::StatusOr<TransferSummary> StartFresh(const Trainer& trainer);

}  // namespace muster::worker
