// Running gangs that are stopped to make room: for the job that has a partition's reservation, or
// for a job of the same project that its quotas hold back. Whom it takes is decided by
// policy/placement/make_room.h. Pure.
#pragma once

#include <string>

#include "controller/policy/limits/quota.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// The reservation as it becomes when gangs of lower priority, or elastic ones, make room for the
// candidate; as it is where none may, or where enough comes free soon enough anyway.
Reservation Preempt(Round& round, const Candidate& candidate, int partition,
                    Reservation reservation);

// A job that its quotas hold back gets the slots of lower ones of its own project. Whether it did,
// or they are on their way. `over`: how many slots it lacks.
bool DisplaceOwn(Round& round, const Candidate& candidate, const SlotsOver& over);

// The jobs that are told to yield to this one in this round, as the end of a wait reason; empty:
// none.
std::string WhoYieldsTo(const Round& round, uint64_t job_id);

}  // namespace muster::controller
