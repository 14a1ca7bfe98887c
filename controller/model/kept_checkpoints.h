// Which of a job's checkpoints may go: by its own keep_last, or since somebody removed them. Pure.
//
// The retention policy deletes them, but for those that somebody else needs; a job that has any is
// one that the policy looks at.
#pragma once

#include <vector>

#include "controller/model/snapshot.h"
#include "controller/model/types/checkpoint_types.h"

namespace muster::controller {

// By step; of one step the later row is the newer one.
bool Newer(const Checkpoint* a, const Checkpoint* b);

// The job's checkpoints on disk that nothing of the job keeps: those that somebody removed, and
// all that have `keep_last` newer verified ones, except the newest best one, the newest best one
// that is verified, and those that are pinned. In no order. Cost: the job's checkpoints.
std::vector<const Checkpoint*> LetGo(const Snapshot& snapshot, const Job& job);

}  // namespace muster::controller
