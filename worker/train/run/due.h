// What follows a step: a report, a validation, a save. Used by the loop alone. One thread.
#pragma once

#include <chrono>

#include "absl/time/time.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_host.h"
#include "worker/train/run/run_state.h"

namespace muster::worker {

// The same answer on every rank, for it depends on the step alone.
struct Due {
  bool report = false;
  bool validate = false;
  bool save = false;
};

// After the step that brought the run from `before` to `run`. Pure.
Due DueAfter(const Recipe& recipe, const RunState& before, const RunState& run);

// Rank 0's clock of saves by time. Ranks' clocks differ, so what it asks for travels with the
// gradients: all of them save after the same step.
class SaveClock {
 public:
  // Zero: never.
  explicit SaveClock(absl::Duration every) : every_(every), last_(Clock::now()) {}

  void Restart() { last_ = Clock::now(); }
  // `requested` with a save in it, once each time that one is due.
  RequestedStop AddTo(RequestedStop requested);

 private:
  using Clock = std::chrono::steady_clock;
  const absl::Duration every_;
  Clock::time_point last_;
};

}  // namespace muster::worker
