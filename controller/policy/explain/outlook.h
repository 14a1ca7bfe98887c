// When a waiting job will start: the scheduler itself, let run on a copy of the world in which jobs
// end when they are expected to. Pure.
//
// So it knows what the scheduler knows (order, shares, quotas, backfill, preemption, dependencies)
// and nothing else: no new jobs, no failures, no workers that come or go. A gang that is being
// ended, or makes way, is taken to be gone at once, and to have saved nothing more.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/explanation_types.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

struct Outlook {
  absl::Time start = absl::InfiniteFuture();  // infinite: unknown
  std::vector<RankPlacement> ranks;           // where
  std::vector<ExpectedEndOf> rests_on;        // ends in its pools that come before, in order
  std::string why_unknown;
};

// Moments that are simulated, with one scheduling round each: at most kMaxOutlookMoments, and at
// most so many that moments times active jobs stay within kOutlookWork.
inline constexpr size_t kOutlookWork = 4'000'000;
inline constexpr size_t kMaxOutlookMoments = 2000;
// With more active jobs than this nothing is worked out.
inline constexpr size_t kMaxOutlookJobs = 20'000;

// Requires that the job is PENDING or RECOVERING.
Outlook LookAhead(const Snapshot& snapshot, uint64_t job_id, const ScheduleContext& context);

}  // namespace muster::controller
