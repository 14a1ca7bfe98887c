// Evaluations as the loop makes them: with the averaged weights where there are such, reported, and
// with an ear for wishes to stop.
//
// Used by the loop alone. All ranks call both functions. One thread. Throws what torch throws.
#pragma once

#include "worker/train/loop.h"
#include "worker/train/reporter.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/evaluate.h"

namespace muster::worker {

// An evaluation with a stop in its wish is not reported.
Evaluation Assess(Split split, const Recipe& recipe, const TrainParts& parts, Reporter& reporter,
                  const RunState& run);

// Returns whether the model is the best one so far. Where some rank wishes to stop, the validation
// is left off and owed, and the wish is `leave`'s.
bool Validate(const Recipe& recipe, const TrainParts& parts, Reporter& reporter, RunState& run,
              RequestedStop& leave);

}  // namespace muster::worker
