// What a job lacks in a pool: slots, CPUs, memory, or workers that it may use. Pure.
#pragma once

#include <string>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/model/types/explanation_types.h"

namespace muster::controller {

// Empty: the job's smallest gang would fit there now, if it were alone in the queue. Otherwise what
// is short comes first, then, as hints, what is there but not for it.
std::vector<Blocker> ShortfallInPool(const Snapshot& snapshot, const JobNeeds& needs,
                                     const std::string& pool);

}  // namespace muster::controller
