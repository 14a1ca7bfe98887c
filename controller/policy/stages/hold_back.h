// The second stage: arrays' and quotas' bounds on what may run at a time. Pure.
#pragma once

#include <cstdint>

#include "controller/policy/queue/queue_order.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// Whether its array or a quota holds the candidate back; then its wait reason says so, and the walk
// skips those that it holds back, too. Gangs of its project may be stopped for it (DisplaceOwn).
bool HoldBack(Round& round, QueueWalk& walk, const Candidate& candidate);

// Slots are kept for the candidate: they count against its quotas and its array's bound for those
// that come after it.
void CountKept(Round& round, const Candidate& candidate, uint32_t slots);

// How many ranks the quotas leave to the candidate; at least as many as it needs, since it is not
// held back.
uint32_t RanksWithinQuotas(Round& round, const Candidate& candidate);

// How many they would leave to a job that runs, if it gave back what it holds.
uint32_t RanksWithinQuotasIfStopped(Round& round, const Job& job);

}  // namespace muster::controller
