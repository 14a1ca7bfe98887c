// The third stage: a gang's place among the slots that are free, and its start there. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/policy/queue/queue_order.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// Takes at most `max_ranks` ranks' slots out of the index; avoids workers on which the job failed,
// if a gang of the same size fits on the others. Empty: too few fit, and nothing was taken.
std::vector<Grant> Fit(Round& round, const Candidate& candidate, int partition, uint32_t max_ranks);

// Puts the gang into the plan, or reserves the slots for one that may only start soon, or whose
// data must be looked at there first; `grants` were taken out of the index. False: there are none.
bool Start(Round& round, QueueWalk& walk, const Candidate& candidate, int partition,
           std::vector<Grant> grants);

uint32_t SlotsOf(const std::vector<Grant>& grants);

}  // namespace muster::controller
