#include "controller/policy/placement/plan_preemption.h"

#include <utility>

#include "controller/policy/placement/preemption_input.h"

namespace muster::controller {
namespace {

// Takes back each that is not needed, the dearest first.
void DropSuperfluous(std::vector<WorkerResources>& workers, const PreemptionInput& input,
                     const RankSize& rank, uint32_t ranks, std::vector<size_t>& shrink) {
  for (size_t at = shrink.size(); at-- > 0;) {
    const size_t i = shrink[at];
    ReleaseSpare(workers, *input.jobs[i], input.candidates[i], -1);
    if (RanksIn(workers, rank) >= ranks) {
      shrink.erase(shrink.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      ReleaseSpare(workers, *input.jobs[i], input.candidates[i], +1);
    }
  }
}

VictimChoice Choose(const Snapshot& snapshot, const PreemptionInput& input,
                    const Preemptor& preemptor, const ElasticSettings& settings, absl::Time now) {
  const JobNeeds& needs = preemptor.demand.needs();
  const RankSize rank = RankSizeOf(needs);
  const int32_t priority = preemptor.job.settings->priority;
  std::vector<WorkerResources> workers = input.workers;
  if (RanksIn(workers, rank) >= needs.min_ranks) return {};  // what is being ended is enough
  VictimChoice choice;
  for (size_t i : ShrinkCandidates(snapshot, input, priority, settings, now)) {
    if (RanksIn(workers, rank) >= needs.min_ranks) break;
    ReleaseSpare(workers, *input.jobs[i], input.candidates[i], +1);
    choice.shrink.push_back(i);
  }
  if (RanksIn(workers, rank) < needs.min_ranks) {
    choice.preempt =
        CheapestVictims(workers, input, PreemptionCandidates(input, priority, choice.shrink), rank,
                        needs.min_ranks);
    if (choice.preempt.empty()) {
      return {.shrink = {},
              .preempt =
                  CheapestVictims(input.workers, input, PreemptionCandidates(input, priority, {}),
                                  rank, needs.min_ranks)};
    }
    for (size_t i : choice.preempt) {
      for (const VictimCandidate::Held& held : input.candidates[i].held)
        AddResources(workers[held.worker], held.what);
    }
  }
  DropSuperfluous(workers, input, rank, needs.min_ranks, choice.shrink);
  return choice;
}

}  // namespace

std::vector<StopGang> PlanPreemption(const Snapshot& snapshot, const WorkerIndex& index,
                                     const Preemptor& preemptor, const ElasticSettings& settings,
                                     absl::Time now) {
  const PreemptionInput input = BuildPreemptionInput(snapshot, index, preemptor, now);
  return StopsFor(input, Choose(snapshot, input, preemptor, settings, now), preemptor.job);
}

}  // namespace muster::controller
