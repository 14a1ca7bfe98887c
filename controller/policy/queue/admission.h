// Whether a waiting job may be placed at all, whatever the slots: held, not begun, waiting for
// other jobs, in back-off. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

struct Admission {
  enum class Decision {
    kNotWaiting,  // it holds slots, is suspended or has ended
    kReady,       // place it
    kSoon,        // it recovers or waits for its back-off: keeps its place in the queue
    kBlocked,     // waits for something else than slots; holds up no other job
  };
  Decision decision = Decision::kNotWaiting;
  std::string message;           // of kBlocked
  uint64_t waits_for = 0;        // the job that it waits for, or made way for; 0: none
  bool waits_for_array = false;  // all of that one's array
  // Ask again then: since boot (back-off, made way), or by the wall clock (begin).
  absl::Duration again_at = absl::InfiniteDuration();
  absl::Time again = absl::InfiniteFuture();
};

Admission Admit(const Snapshot& snapshot, const Job& job, const ScheduleContext& context);

// The time, since boot, from which an admitted job waits only for slots and data. Checks of its
// data from before do not count: a job that it depended on may have written the data later. `now`
// is since boot, and `wall` the same moment by the wall clock.
absl::Duration AdmittedSince(const Snapshot& snapshot, const Job& job, absl::Duration now,
                             absl::Time wall);

// The wait that opens a job's fall-back pools. It adds up over attempts that failed or were
// resized; preemption, suspension and a requeue begin it anew. For a job that still has an attempt
// it is the wait that the job would have if that one failed now. Infinite: the start of the wait is
// unknown. `now` here and below is ledger time.
absl::Duration Waited(const Job& job, absl::Time now);

// Whether the job has waited long enough for this one of its pools, now. A job of one pool need
// not.
bool IsOpenTo(const Job& job, const JobNeeds::Pool& pool, absl::Time now);

}  // namespace muster::controller
