// When running gangs give back what they hold, as far as their run times are known. Pure.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// What comes free in the partition, by time; worked out once a round.
std::vector<Release>& ReleasesOf(Round& round, int partition);

// What the job's gang holds of the partition, as coming free at `at`.
void CollectReleases(const Round& round, const Job& job, absl::Time at, int partition,
                     std::vector<Release>& releases);

// Lists the slots of the gangs in `stops` as free from now on; when they really leave is unknown.
void ReleaseAtOnce(Round& round, const std::vector<StopGang>& stops, int partition);

}  // namespace muster::controller
