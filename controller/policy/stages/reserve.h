// The fifth stage: slots that are reserved for the first job of a partition that does not fit, so
// that those behind it do not delay it (policy/placement/backfill.h). Pure.
#pragma once

#include "controller/policy/stages/round.h"

namespace muster::controller {

// Reserves in the first partition where gangs make room for the candidate or its start time is
// known; else in the first that could hold it and has no reservation. If another job holds the
// reservation, a recovering job reserves the slots that its ending attempt has released.
void ReserveSlots(Round& round, const Candidate& candidate);

// Records the reservation in `partition`, which must have none.
void TakeReservation(Round& round, const Candidate& candidate, int partition,
                     Reservation reservation);

}  // namespace muster::controller
