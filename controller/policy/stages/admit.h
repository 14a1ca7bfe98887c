// The first stage: whether the job that is being considered takes part in this round. Pure.
#pragma once

#include <optional>

#include "controller/policy/stages/round.h"

namespace muster::controller {

// nullopt: its back-off lasts longer than keep_for_back_off, or workers have not answered yet
// whether they see its checkpoint root (its wait reason says so). `group` is that of the job.
std::optional<Candidate> AdmitToRound(Round& round, uint64_t job_id, JobGroup& group);

}  // namespace muster::controller
