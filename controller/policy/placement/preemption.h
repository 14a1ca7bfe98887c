// The victims of a gang that does not fit: the running jobs of lower priority whose end loses
// the least work. Pure.
//
// Work is at stake since the newest verified checkpoint: slots times seconds. Victims save first,
// so that this is the most that can be lost; what was lost in the end is kept with the attempt. A
// set of victims frees enough for the whole gang or is not touched at all. Among sets that lose as
// little the one with fewer jobs is taken; among those of one size the one whose cheapest job costs
// less; of jobs that cost the same, one of lower priority, then one that was submitted later.
// The set is the best one where candidates are few (a bounded search), and a good one without a
// superfluous member where they are many.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// What one rank takes; all of it on one worker.
struct RankSize {
  uint32_t slots = 1;
  uint32_t cpus = 0;          // 0: not counted
  uint64_t memory_bytes = 0;  // likewise
};

// What a worker has for the gang: free now, and of the right kind.
struct WorkerResources {
  uint64_t worker_id = 0;
  int64_t slots = 0;
  int64_t cpus = 0;
  int64_t memory_bytes = 0;
};
uint32_t RanksIn(const WorkerResources& worker, const RankSize& rank);

// A running job that may be stopped, with what it holds on the workers.
struct VictimCandidate {
  uint64_t job_id = 0;
  int64_t cost = 0;  // slot-seconds at stake
  int32_t priority = 0;
  struct Held {
    size_t worker = 0;  // its position
    WorkerResources what;
  };
  std::vector<Held> held;  // at most one a worker
};

// The least set of candidates that has to go so that `ranks` fit, as their positions, ascending.
// Empty: no set would do, or none is needed.
std::vector<size_t> ChooseVictims(const std::vector<WorkerResources>& workers,
                                  const std::vector<VictimCandidate>& candidates,
                                  const RankSize& rank, uint32_t ranks);

// The work of the live attempt since its newest verified checkpoint, or since it began, in
// slot-seconds of the slots that it holds. `now` is ledger time. Requires a live attempt.
int64_t SlotSecondsAtStake(const Snapshot& snapshot, const Job& job, absl::Time now);

// Likewise of a gang that has left by now: since the last checkpoint that it committed.
int64_t SlotSecondsLost(const Snapshot& snapshot, const Job& job, absl::Time now);

// When the current attempt last committed a checkpoint that is good, by ledger time; InfinitePast:
// not yet. Requires a current attempt.
absl::Time SavedUpTo(const Snapshot& snapshot, const Job& job);

// Whether the job was stopped for `other` already, which has found no place since. Nobody is
// stopped twice for the same start: where placement could not use what came free, the stops
// would repeat for ever.
bool WasStoppedFor(const Job& job, const Job& other);

// The job for which this one gave up its slots and which still waits for them; 0: none. While there
// is one the slots are that job's, and this job is not placed. After kPreemptorWait it no longer
// counts: the other one found no place even so.
inline constexpr absl::Duration kPreemptorWait = absl::Minutes(5);
// `now` is ledger time.
uint64_t WaitingPreemptor(const Snapshot& snapshot, const Job& job, absl::Time now);

}  // namespace muster::controller
