// Which validation is the best of a run: the one whose model the run gives in the end. Pure.
#pragma once

#include "worker/train/run/run_state.h"

namespace muster::worker {

struct Validated {
  double accuracy = 0;
  double loss = 0;
};

// Notes in `run` that the model of run.step was validated, and returns whether it is the best one
// so far. By accuracy where that leads, and by loss where it does not or where accuracies are
// equal. A validation that gave no number (NaN) is never the best. One of before `from_step` is the
// best only for want of a later one.
bool TakeValidation(const Validated& validated, bool accuracy_leads, int64_t from_step,
                    RunState& run);

}  // namespace muster::worker
