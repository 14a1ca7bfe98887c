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

// How long the job has waited, as its fall-back pools count it: in this wait, and in those before
// the attempts that it lost or that were resized, since it goes on after them where it was. What
// made way, was suspended or requeued waits anew. Of a job that has not gone back to the queue yet:
// what it will have waited then, if it is resized or fails. Infinite where nobody knows since when.
// `now` here and below is ledger time.
absl::Duration Waited(const Job& job, absl::Time now);

// Whether the job has waited long enough for this one of its pools, now. A job of one pool need
// not.
bool IsOpenTo(const Job& job, const JobNeeds::Pool& pool, absl::Time now);

}  // namespace muster::controller
