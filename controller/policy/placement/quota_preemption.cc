// Preemption for a job that its quotas hold back: PlanPreemptionWithinQuota.
#include <algorithm>
#include <optional>
#include <utility>

#include "controller/policy/placement/plan_preemption.h"
#include "controller/policy/placement/preemption_input.h"

namespace muster::controller {
namespace {

// What has to come free for the job's quotas, and what does when jobs leave.
class QuotaGap {
 public:
  QuotaGap(const SlotsOver& over, const Job& preemptor)
      : project_(over.project), user_(over.user), preemptor_(preemptor) {}

  bool IsOwn(const Job& job) const { return job.settings->project == preemptor_.settings->project; }
  // `slots` of the job come free; negative: do not after all.
  void Free(const Job& job, int64_t slots) {
    if (!IsOwn(job)) return;
    project_ -= slots;
    if (job.owner == preemptor_.owner) user_ -= slots;
  }
  bool IsClosed() const { return project_ <= 0 && user_ <= 0; }
  // Whether the job's leaving brings it closer.
  bool Needs(const Job& job) const {
    return IsOwn(job) && (project_ > 0 || (user_ > 0 && job.owner == preemptor_.owner));
  }
  bool NeedsUser() const { return user_ > 0; }
  bool OfUser(const Job& job) const { return job.owner == preemptor_.owner; }

 private:
  int64_t project_;
  int64_t user_;
  const Job& preemptor_;
};

int64_t SlotsHeld(const Job& job) { return UseOf(job).slots; }

int64_t SpareSlots(const Job& job) {
  const JobNeeds& needs = job.settings->needs;
  return (static_cast<int64_t>(job.current->ranks.size()) - needs.min_ranks) * needs.slots_per_rank;
}

// The whole of it: workers' resources and quotas, as jobs leave them or come back.
struct Balance {
  const PreemptionInput& input;
  std::vector<WorkerResources> workers;
  QuotaGap gap;

  void Shrink(size_t i, int sign) {
    ReleaseSpare(workers, *input.jobs[i], input.candidates[i], sign);
    gap.Free(*input.jobs[i], sign * SpareSlots(*input.jobs[i]));
  }
  void Leave(size_t i, int sign) {
    for (const VictimCandidate::Held& held : input.candidates[i].held) {
      AddResources(workers[held.worker], {.slots = sign * held.what.slots,
                                          .cpus = sign * held.what.cpus,
                                          .memory_bytes = sign * held.what.memory_bytes});
    }
    gap.Free(*input.jobs[i], sign * SlotsHeld(*input.jobs[i]));
  }
};

// Victims that close the gap: those who hold the user's slots first, since they count twice; each
// time the least work lost for a slot that is needed.
void CloseGap(Balance& balance, const std::vector<size_t>& who, std::vector<size_t>& victims) {
  while (!balance.gap.IsClosed()) {
    size_t best = balance.input.jobs.size();
    double best_cost = 0;
    for (size_t i : who) {
      const Job& job = *balance.input.jobs[i];
      const bool taken = std::find(victims.begin(), victims.end(), i) != victims.end();
      if (taken || !balance.gap.Needs(job)) continue;
      if (balance.gap.NeedsUser() && !balance.gap.OfUser(job)) continue;
      const double cost = static_cast<double>(balance.input.candidates[i].cost + 1) /
                          static_cast<double>(std::max<int64_t>(SlotsHeld(job), 1));
      if (best == balance.input.jobs.size() || cost < best_cost) {
        best = i;
        best_cost = cost;
      }
    }
    if (best == balance.input.jobs.size()) return;
    victims.push_back(best);
    balance.Leave(best, +1);
  }
}

// `shrink`: gangs may shrink; otherwise they may only go.
std::optional<VictimChoice> Choose(const PreemptionInput& input, const Preemptor& preemptor,
                                   const QuotaGap& gap, const std::vector<size_t>& shrink) {
  const JobNeeds& needs = preemptor.demand.needs();
  const RankSize rank = RankSizeOf(needs);
  Balance balance{.input = input, .workers = input.workers, .gap = gap};
  const auto enough = [&] {
    return balance.gap.IsClosed() && RanksIn(balance.workers, rank) >= needs.min_ranks;
  };
  VictimChoice choice;
  for (size_t i : shrink) {
    if (enough()) break;
    if (!balance.gap.Needs(*input.jobs[i])) continue;
    balance.Shrink(i, +1);
    choice.shrink.push_back(i);
  }
  std::vector<size_t> who =
      PreemptionCandidates(input, preemptor.job.settings->priority, choice.shrink);
  CloseGap(balance, who, choice.preempt);
  if (!balance.gap.IsClosed()) return std::nullopt;
  if (!enough()) {
    std::erase_if(who, [&](size_t i) {
      return std::find(choice.preempt.begin(), choice.preempt.end(), i) != choice.preempt.end();
    });
    for (size_t i : CheapestVictims(balance.workers, input, who, rank, needs.min_ranks)) {
      choice.preempt.push_back(i);
      balance.Leave(i, +1);
    }
    if (!enough()) return std::nullopt;
  }
  // Who turned out superfluous stays.
  std::erase_if(choice.preempt, [&](size_t i) {
    balance.Leave(i, -1);
    if (enough()) return true;
    balance.Leave(i, +1);
    return false;
  });
  std::erase_if(choice.shrink, [&](size_t i) {
    balance.Shrink(i, -1);
    if (enough()) return true;
    balance.Shrink(i, +1);
    return false;
  });
  return choice;
}

}  // namespace

std::optional<std::vector<StopGang>> PlanPreemptionWithinQuota(
    const Snapshot& snapshot, const WorkerIndex& index, const Preemptor& preemptor,
    const SlotsOver& over, const ElasticSettings& settings, absl::Time now) {
  const PreemptionInput input = BuildPreemptionInput(snapshot, index, preemptor, now);
  QuotaGap gap(over, preemptor.job);
  for (uint64_t id : input.leaving) {
    const Job& job = *snapshot.FindJob(id);
    gap.Free(job, SlotsHeld(job));
  }
  std::optional<VictimChoice> choice =
      Choose(input, preemptor, gap,
             ShrinkCandidates(snapshot, input, preemptor.job.settings->priority, settings, now));
  if (!choice.has_value()) choice = Choose(input, preemptor, gap, {});
  if (!choice.has_value()) return std::nullopt;
  return StopsFor(input, *choice, preemptor.job);
}

}  // namespace muster::controller
