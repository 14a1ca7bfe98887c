// What a job that preempts could use, and whom it could preempt or shrink there: what both searches
// for victims (plan_preemption, quota_preemption) start from. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "controller/policy/placement/plan_preemption.h"
#include "controller/policy/placement/preemption.h"

namespace muster::controller {

// What the job could use, and who is in its way.
struct PreemptionInput {
  std::vector<WorkerResources> workers;     // free, or coming free already
  std::vector<VictimCandidate> candidates;  // with what their leaving would cost
  std::vector<const Job*> jobs;             // of the candidates
  std::set<uint64_t> leaving;               // jobs that are being ended
};
PreemptionInput BuildPreemptionInput(const Snapshot& snapshot, const WorkerIndex& index,
                                     const Preemptor& preemptor, absl::Time now);

// Positions in the input.
struct VictimChoice {
  std::vector<size_t> shrink;
  std::vector<size_t> preempt;
};
std::vector<StopGang> StopsFor(const PreemptionInput& input, const VictimChoice& choice,
                               const Job& preemptor);

RankSize RankSizeOf(const JobNeeds& needs);
uint32_t RanksIn(const std::vector<WorkerResources>& workers, const RankSize& rank);
void AddResources(WorkerResources& worker, const WorkerResources& more);

// What the gang no longer needs when it goes on with the fewest ranks, fullest workers first;
// `sign` gives or takes it back.
void ReleaseSpare(std::vector<WorkerResources>& workers, const Job& job,
                  const VictimCandidate& candidate, int sign);

// Who may shrink for a job of this priority, the cheapest first.
std::vector<size_t> ShrinkCandidates(const Snapshot& snapshot, const PreemptionInput& input,
                                     int32_t priority, const ElasticSettings& settings,
                                     absl::Time now);
// Who may be preempted for one, without those that shrink.
std::vector<size_t> PreemptionCandidates(const PreemptionInput& input, int32_t priority,
                                         const std::vector<size_t>& shrink);
// The cheapest of them that free enough for so many ranks; empty: none do.
std::vector<size_t> CheapestVictims(const std::vector<WorkerResources>& workers,
                                    const PreemptionInput& input, const std::vector<size_t>& who,
                                    const RankSize& rank, uint32_t ranks);

}  // namespace muster::controller
