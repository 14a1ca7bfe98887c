// Reports of progress: shown and watched, and stored every few seconds. Pure; used by the rules.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/draft.h"

namespace muster::controller {

// From a verification or deletion that failed to the next try.
inline constexpr absl::Duration kCheckpointRetry = absl::Seconds(30);

// How often the progress of a job is stored between its transitions: a controller that is killed
// forgets no more than this. A new phase is stored sooner, since time is labelled by it.
inline constexpr absl::Duration kSaveProgressEvery = absl::Seconds(10);
inline constexpr absl::Duration kSavePhaseEvery = absl::Seconds(1);

// Takes in what a worker reports of its live ranks: remembers since when each stands still, and
// brings the jobs' own progress up to date. Reports of fenced ranks change no job.
void TakeRankStatuses(Draft& draft, uint64_t worker_id, const std::vector<RankStatus>& statuses,
                      absl::Duration now);

// The rank may be alive but must not be: its attempt is over, or it was taken for lost. A rank of a
// live gang that has reported its end is not fenced off: the report was only under way.
bool IsFencedOff(const Snapshot& snapshot, const Worker& worker, const RankStatus& status);

}  // namespace muster::controller
