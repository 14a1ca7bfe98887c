// The second stage: arrays' and quotas' bounds on what may run at a time. Pure.
#pragma once

#include <cstdint>

#include "controller/policy/queue/queue_order.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// Whether its array or a quota holds the candidate back. Then its wait reason says so, and the walk
// skips those that it holds back, too; but not for one that backs off, which goes unmentioned.
// Gangs of its project may be stopped for it (PreemptOwnProject). One that recovers is never held
// back: what it will need again counts against its quotas from here on.
bool HoldBack(Round& round, QueueWalk& walk, const Candidate& candidate);

// Slots are reserved for the candidate: for those that come after it they count against its quotas,
// and for later tasks of its array that back off also against the array's bound. Those of one that
// recovers count already (HoldBack).
void CountReserved(Round& round, const Candidate& candidate, uint32_t slots);

// How many ranks the quotas leave to the candidate; at least as many as it needs, since it is not
// held back.
uint32_t RanksWithinQuotas(Round& round, const Candidate& candidate);

// How many they would leave to a job that runs, if it gave back what it holds.
uint32_t RanksWithinQuotasIfStopped(Round& round, const Job& job);

}  // namespace muster::controller
