// Which workers watch which checkpoint roots, and who identifies a new one. Pure.
//
// A root is known by the identity in its marker. While nobody knows it, one worker at a time is to
// find out: it takes the marker that is there or makes one; when it cannot, or does not answer for
// kClaimPatience, another one of the pools does. From then on every worker of the pools whose jobs
// count on the root is asked whether it sees that one; who does not gets none of these jobs
// (CanUseRoot). docs/decisions/0008.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

// For an answer of the worker that is to find out about a root: it writes one small file.
inline constexpr absl::Duration kClaimPatience = absl::Seconds(10);
// Checkpoints that one question names at most.
inline constexpr size_t kMaxWitnesses = 4;

struct RootPlan {
  ReconcileRoots event;
  absl::Duration due_at = absl::InfiniteDuration();  // since boot: run again then

  bool empty() const { return event.settle.empty() && event.claims.empty() && event.asks.empty(); }
};

// What is to be done now. `now` is the time since boot.
RootPlan PlanRoots(const Snapshot& snapshot, absl::Duration now);

// An elastic job is placed this long after workers were asked about its root at the earliest, while
// one of them has not answered: the first to answer would get all of it.
inline constexpr absl::Duration kRootProbePatience = absl::Seconds(3);

// Until when an elastic job waits for that, since boot; the infinite past: it need not.
absl::Duration RootProbesAwaitedUntil(const Snapshot& snapshot, const JobNeeds& needs,
                                      absl::Duration now);

// The identity that a root gets which has none. Unlikely to be given twice.
std::string NewRootIdentity(const std::string& path, uint64_t term, absl::Time now);

// Why the job's root keeps it from workers that would take it, for people; empty: it does not.
// "its checkpoint root /ckpt is not seen by w1 (its marker is not there: ...) and 2 more workers"
std::string WhyRootUnseen(const Snapshot& snapshot, const JobNeeds& needs);

// What the worker lacks of the root, in a few words. Requires that it cannot use it.
std::string WhyUnseenBy(const Worker& worker, const std::string& root);

}  // namespace muster::controller
