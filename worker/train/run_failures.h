// The ways that a run itself fails, in words that say what to try. Used by the loop alone. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/agreement.h"

namespace muster::worker {

// NON_FINITE: a step's loss or gradient was not, or too many steps in a row overflowed fp16.
// Requires a result that is not finite.
absl::Status NonFinite(const StepResult& result);

// OUT_OF_MEMORY, for what torch_guard caught: with the parts that the run was estimated to need.
absl::Status OutOfMemory(const absl::Status& thrown, const MemoryEstimate& memory,
                         const Recipe& recipe);

// NON_FINITE: the run came to its end, and no validation gave a number: there is no best model.
absl::Status NothingBest(const RunState& run);

// DATA_ERROR: the checkpoint of another job that the run goes on from stands at its end or beyond.
absl::Status NothingLeft(int64_t step, const Recipe& recipe);

}  // namespace muster::worker
