// How often a job may be tried again after failures of one class, if it gets no further. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/model/types/job_types.h"

namespace muster::controller {

struct RestartBudget {
  FailureClass kind = FailureClass::kNone;
  uint32_t limit = 0;
  uint32_t used = 0;    // since the job last got further
  bool given = true;    // by the spec; false: such failures are not tried again unless it says so
  bool shared = false;  // restart.max_restarts, on which all draw that have no budget of their own
  std::string key;      // of the spec: what to change

  uint32_t left() const { return limit - std::min(limit, used); }
};

RestartBudget RestartBudgetOf(const Job& job, FailureClass kind);

// Of every class that is charged for.
std::vector<RestartBudget> RestartBudgetsOf(const Job& job);

// The job got further, or is queued anew: nothing counts against any of its budgets.
void RefillBudgets(Job& job);

}  // namespace muster::controller
