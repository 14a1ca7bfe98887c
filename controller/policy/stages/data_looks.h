// Where a round finds that workers must look at a job's data first (policy/health/data_sight): it
// puts the questions into the plan, and keeps the slots for the job meanwhile. Pure.
#pragma once

#include <vector>

#include "controller/policy/stages/round.h"

namespace muster::controller {

// Questions in one plan at most, and jobs that one plan ends for want of data.
inline constexpr size_t kMaxDataLooks = 256;

// Whether a worker of the grants has not found the job's data sound lately. Then it is asked,
// unless it is already, and the job's wait reason says so, if it waits.
bool AwaitsDataLooks(Round& round, const Job& job, const std::vector<Grant>& grants);

// The candidate fits nowhere. Where that may be for workers that found its data faulty, these look
// again when it is time, and so do those that have not looked yet, busy or not, while nobody has
// found them sound. Who found a fault before the newest of its group came looks at once. When all
// have given them up, jobs of its group that never ran end.
void LookFurther(Round& round, const Candidate& candidate);

// The gang could grow, but perhaps for workers with free slots that found its data faulty: these
// look again when it is time.
void LookFurther(Round& round, const Job& running, Demand& demand);

// At the end of the round: where more jobs look further than one round goes into, the next ones go
// on with those that are left.
void ContinueLooks(Round& round);

}  // namespace muster::controller
