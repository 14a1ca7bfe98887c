// Which ended jobs are forgotten: those that ended long ago, and the oldest ones beyond a number,
// of which nothing is left that anybody may still need. Pure: snapshot and time in, findings out;
// the applier judges each again.
//
// A job stays while a checkpoint of it may lie on a disk, while a process of it may live, and while
// another job that is known was to wait for it or to begin from a checkpoint of it. The tasks of an
// array go together.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/events.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

struct ExpirySettings {
  absl::Duration after = absl::Hours(24 * 90);  // of their ends; infinite: never
  uint64_t most = 1'000'000;                    // ended jobs that are known
};

// Whether nothing of the ended job is left. Of what other jobs want of it it says nothing.
bool HasLeftNothing(const Snapshot& snapshot, const Job& job);

// A JobsExpired for each job, or array, that may go, the one that ended first first; so many that
// they name at most `most` jobs, but at least one. `now` is ledger time. Cost: all jobs.
std::vector<Finding> FindExpiredJobs(const Snapshot& snapshot, const ExpirySettings& settings,
                                     absl::Time now, size_t most = Findings::kMost);

// What is left of a finding by now: whether its jobs may still go. Cost: they, the outbox, and the
// jobs that came since.
bool MayStillExpire(const Snapshot& snapshot, const JobsExpired& finding);

}  // namespace muster::controller
