// How fast a live attempt gets on, and when its last step will be done at that pace. Pure; time
// comes as an argument.
//
// The pace is the mean over the last kPaceSpan to two of them, by rank 0's reports: validations and
// saves are in it, the time before the first step is not. What follows the last step (a test, an
// export) is not foretold.
#pragma once

#include "absl/time/time.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

inline constexpr absl::Duration kPaceSpan = absl::Minutes(15);
// Before it has been measured for so long, over so many steps, a pace says nothing.
inline constexpr absl::Duration kMinPaceTime = absl::Seconds(2);
inline constexpr int64_t kMinPaceSteps = 2;

// Rank 0 of the live attempt has done `step` of `total_steps` (0: nobody knows) at `now`.
void NotePace(uint32_t attempt, JobPace& pace, int64_t step, int64_t total_steps, absl::Time now);

// When the live attempt will have done its last step, as far as its own progress tells; infinite:
// it does not. Requires a live attempt.
absl::Time ForetoldEnd(const Job& job);

}  // namespace muster::controller
