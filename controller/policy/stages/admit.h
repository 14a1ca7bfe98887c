// The first stage: whether the job in hand may be placed in this look, or keeps its place. Pure.
#pragma once

#include <optional>

#include "controller/policy/stages/round.h"

namespace muster::controller {

// Nothing: its place in the queue comes later, or it waits for workers to look at its checkpoint
// root, and its wait reason says so. `group` is that of the job.
std::optional<Candidate> AdmitToRound(Round& round, uint64_t job_id, JobGroup& group);

}  // namespace muster::controller
