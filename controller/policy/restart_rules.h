// Whether a job whose attempt was lost is tried again, when, and at whose charge. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "controller/model/job_state.h"
#include "controller/model/job_types.h"

namespace muster::controller {

struct RestartDecision {
  JobInput input = JobInput::kClearedForRetry;  // or kBudgetSpent, kNotRetryable
  absl::Duration wait;                          // before the next placement
  bool charged = false;                         // counts against the budget
  std::string message;                          // for people
};

// Requires a current attempt with its failure class noted.
RestartDecision DecideRestart(const Job& job);

}  // namespace muster::controller
