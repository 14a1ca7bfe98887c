// The fifth stage: slots that are kept for the first job of a partition that does not fit, so that
// those behind it do not delay it (policy/placement/backfill.h). Pure.
#pragma once

#include "controller/policy/stages/round.h"

namespace muster::controller {

// Of the partitions that the candidate may go to, it gets a reservation in the one that does
// something for it: where gangs make room for it, or where it is known when it could start; else in
// the first. Where another job has the reservation, one that recovers keeps what its own dying
// attempt has given back.
void ReserveSlots(Round& round, const Candidate& candidate);

// Makes the reservation the partition's. `partition` has none yet.
void TakeReservation(Round& round, const Candidate& candidate, int partition,
                     Reservation reservation);

}  // namespace muster::controller
