// Running gangs that are stopped to make room: for the job that has a partition's reservation, or
// for a job of the same project that its quotas hold back. Whom it takes is decided by
// policy/placement/plan_preemption.h. Pure.
#pragma once

#include <string>

#include "controller/policy/limits/quota.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// Stops gangs of lower priority, or shrinks elastic ones, for the candidate and returns the new
// reservation. Returns the old one if none may be stopped, or enough comes free soon anyway.
Reservation Preempt(Round& round, const Candidate& candidate, int partition,
                    Reservation reservation);

// Stops gangs of the candidate's project that have lower priority, or shrinks elastic ones, until
// its quotas leave room; stops others too if slots are still missing. Then it has the reservation.
// True: done, or enough gangs are leaving already. `over`: how many slots the quotas lack.
bool PreemptOwnProject(Round& round, const Candidate& candidate, const SlotsOver& over);

// The jobs that are told to yield to this one in this round, as the end of a wait reason; empty:
// none.
std::string PreemptedFor(const Round& round, uint64_t job_id);

}  // namespace muster::controller
