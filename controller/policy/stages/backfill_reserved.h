// The fourth stage: whether a gang that does not fit otherwise may use slots that are reserved for
// jobs which start later, since it will have ended by then (policy/placement/backfill.h). Pure.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// Whether a gang like the candidate's would fit if it might use all that is reserved until a known
// time. Worked out once and kept for the round; false once the round has tried often enough.
bool CouldBackfill(Round& round, const Candidate& candidate, int partition);

// Takes slots for the gang, reserved ones among them whose time comes after `end`, when it is
// expected to have ended. What it takes is reserved no more. Empty: it does not fit, and nothing
// was taken.
std::vector<Grant> FitInReserved(Round& round, const Candidate& candidate, int partition,
                                 absl::Time end);

// What of the grant is still free.
Grant FreePartOf(const WorkerIndex& index, SlotKind kind, const Grant& grant);

}  // namespace muster::controller
