// When a gang with a range of ranks goes on at another size. Pure.
//
// A resize is a restart: the gang saves, leaves, and starts again at what fits. So it grows only
// into slots that nobody waits for, when it has run for a while, when there is enough left to do
// and the gain is larger than what it has not saved. It shrinks when another job waits and would
// fit beside it. A gang that has not saved since it started neither grows nor shrinks for jobs of
// its own priority: it may be unable to save, and would start over. Times are ledger times.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

struct ElasticSettings {
  absl::Duration grow_after = absl::Minutes(10);   // age of the attempt
  double grow_gain = 0.25;                         // so much more ranks, as a part of those it has
  absl::Duration restart_cost = absl::Minutes(1);  // what a restart keeps the gang from training
  // Age of the attempt before it shrinks for a job of its own priority; one of higher priority need
  // not wait.
  absl::Duration shrink_after = absl::Minutes(10);
};

// Runs, may be preempted, and is not of the largest size (MayGrow) or not of the smallest one
// (MayShrink).
bool MayGrow(const Job& job);
bool MayShrink(const Job& job);

// Whether the gang may shrink for a job of this priority now. Requires MayShrink.
bool ShrinksFor(const Snapshot& snapshot, const Job& job, int32_t priority,
                const ElasticSettings& settings, absl::Time now);

// Whether going on with `ranks` is worth the restart. Requires MayGrow.
bool IsWorthGrowing(const Snapshot& snapshot, const Job& job, uint32_t ranks,
                    const ElasticSettings& settings, absl::Time now);

// How long the job will still run at its present size, from its progress in this attempt; where it
// reports none, as long as it has run.
absl::Duration TimeLeft(const Job& job, absl::Time now);

}  // namespace muster::controller
