#include "controller/policy/placement/preemption_input.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

class PreemptionInputBuilder {
 public:
  PreemptionInputBuilder(const Snapshot& snapshot, const WorkerIndex& index,
                         const Preemptor& preemptor)
      : snapshot_(snapshot), index_(index), preemptor_(preemptor) {}

  PreemptionInput Build() {
    index_.partition(preemptor_.partition)
        .workers.FindIf(preemptor_.demand.Eligible(index_), [this](uint64_t id) {
          const WorkerIndex::Node& node = index_.node(id);
          if (node.takes_work) AddWorker(node);
          return false;
        });
    for (auto& [id, candidate] : candidates_) {
      input_.jobs.push_back(snapshot_.FindJob(id));
      input_.candidates.push_back(std::move(candidate));
    }
    return std::move(input_);
  }

 private:
  void AddWorker(const WorkerIndex::Node& node) {
    const Worker& worker = *node.worker;
    const size_t at = input_.workers.size();
    WorkerResources resources{.worker_id = worker.id,
                              .cpus = node.free_cpus,
                              .memory_bytes = static_cast<int64_t>(node.free_memory)};
    const std::vector<uint32_t>& free = node.kinds[WorkerIndex::At(preemptor_.demand.kind())].free;
    std::map<uint64_t, WorkerResources> held;  // by job
    for (const Slot& slot : worker.facts.slots) {
      if (!SlotMatches(slot, preemptor_.demand.needs())) continue;
      const auto holder = worker.pulse.holders.find(slot.index);
      if (holder == worker.pulse.holders.end()) {
        resources.slots += std::binary_search(free.rbegin(), free.rend(), slot.index);
        continue;
      }
      WorkerResources& part = held[holder->second.job_id];
      // A slot of a dead attempt comes free when its process is known to be dead: nobody knows
      // when.
      if (!IsCurrent(holder->second)) continue;
      AddResources(part, {.slots = 1,
                          .cpus = holder->second.cpus,
                          .memory_bytes = static_cast<int64_t>(holder->second.memory_bytes)});
    }
    for (const auto& [job_id, part] : held) {
      if (part.slots == 0) continue;
      const Job& job = *snapshot_.FindJob(job_id);
      if (job.state == JobState::kRecovering || job.state == JobState::kStopping) {
        AddResources(resources, part);
        input_.leaving.insert(job_id);
      } else if (!job.current->save_requested && !WasStoppedFor(job, preemptor_.job)) {
        VictimCandidate& candidate = candidates_[job_id];
        candidate.job_id = job_id;
        candidate.priority = job.settings->priority;
        candidate.held.push_back({.worker = at, .what = part});
      }
    }
    input_.workers.push_back(resources);
  }

  bool IsCurrent(const SlotHolder& holder) const {
    const Job* job = snapshot_.FindJob(holder.job_id);
    return job != nullptr && job->has_live_attempt() && job->current->number == holder.attempt;
  }

  const Snapshot& snapshot_;
  const WorkerIndex& index_;
  const Preemptor& preemptor_;
  PreemptionInput input_;
  std::map<uint64_t, VictimCandidate> candidates_;
};

StopGang Stop(const PreemptionInput& input, size_t i, StopGang::Why why, const Job& preemptor) {
  const Job& job = *input.jobs[i];
  StopGang stop{.job_id = job.id,
                .attempt = job.current->number,
                .why = why,
                .for_job = preemptor.id,
                .reason = {}};
  const std::string unsaved =
      absl::StrCat("; it saves first, ", input.candidates[i].cost, " slot-seconds are unsaved");
  stop.reason = why == StopGang::Why::kShrink
                    ? absl::StrCat("shrinks from ", job.current->ranks.size(), " ranks (",
                                   job.settings->needs.min_ranks,
                                   " would do) to make room for job ", preemptor.id, unsaved)
                    : absl::StrCat("makes way for job ", preemptor.id, " (priority ",
                                   preemptor.settings->priority, " over ", job.settings->priority,
                                   ")", unsaved);
  return stop;
}

}  // namespace

PreemptionInput BuildPreemptionInput(const Snapshot& snapshot, const WorkerIndex& index,
                                     const Preemptor& preemptor, absl::Time now) {
  PreemptionInput input = PreemptionInputBuilder(snapshot, index, preemptor).Build();
  for (size_t i = 0; i < input.jobs.size(); ++i) {
    input.candidates[i].cost = SlotSecondsAtStake(snapshot, *input.jobs[i], now);
  }
  return input;
}

std::vector<StopGang> StopsFor(const PreemptionInput& input, const VictimChoice& choice,
                               const Job& preemptor) {
  std::vector<StopGang> stops;
  for (size_t i : choice.shrink) stops.push_back(Stop(input, i, StopGang::Why::kShrink, preemptor));
  for (size_t i : choice.preempt)
    stops.push_back(Stop(input, i, StopGang::Why::kPreempt, preemptor));
  return stops;
}

RankSize RankSizeOf(const JobNeeds& needs) {
  return {.slots = needs.slots_per_rank,
          .cpus = needs.cpus_per_rank,
          .memory_bytes = needs.memory_per_rank};
}

void AddResources(WorkerResources& resources, const WorkerResources& more) {
  resources.slots += more.slots;
  resources.cpus += more.cpus;
  resources.memory_bytes += more.memory_bytes;
}

uint32_t RanksIn(const std::vector<WorkerResources>& workers, const RankSize& rank) {
  uint32_t ranks = 0;
  for (const WorkerResources& resources : workers) ranks += RanksIn(resources, rank);
  return ranks;
}

void ReleaseSpare(std::vector<WorkerResources>& workers, const Job& job,
                  const VictimCandidate& candidate, int sign) {
  const JobNeeds& needs = job.settings->needs;
  int64_t spare = static_cast<int64_t>(job.current->ranks.size()) - needs.min_ranks;
  std::vector<const VictimCandidate::Held*> held;
  for (const VictimCandidate::Held& part : candidate.held) held.push_back(&part);
  std::stable_sort(held.begin(), held.end(),
                   [](const auto* a, const auto* b) { return a->what.slots > b->what.slots; });
  for (const VictimCandidate::Held* part : held) {
    const int64_t here = part->what.slots / needs.slots_per_rank;
    const int64_t gone = std::min(spare, here);
    if (gone <= 0) continue;
    spare -= gone;
    AddResources(workers[part->worker],
                 {.slots = sign * gone * needs.slots_per_rank,
                  .cpus = sign * gone * part->what.cpus / here,
                  .memory_bytes = sign * gone * part->what.memory_bytes / here});
  }
}

std::vector<size_t> ShrinkCandidates(const Snapshot& snapshot, const PreemptionInput& input,
                                     int32_t priority, const ElasticSettings& settings,
                                     absl::Time now) {
  std::vector<size_t> order;
  for (size_t i = 0; i < input.jobs.size(); ++i) {
    const Job& job = *input.jobs[i];
    if (MayShrink(job) && ShrinksFor(snapshot, job, priority, settings, now)) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const VictimCandidate& x = input.candidates[a];
    const VictimCandidate& y = input.candidates[b];
    return std::make_tuple(x.priority, x.cost, ~x.job_id) <
           std::make_tuple(y.priority, y.cost, ~y.job_id);
  });
  return order;
}

std::vector<size_t> PreemptionCandidates(const PreemptionInput& input, int32_t priority,
                                         const std::vector<size_t>& shrink) {
  std::vector<size_t> who;
  for (size_t i = 0; i < input.jobs.size(); ++i) {
    const Job& job = *input.jobs[i];
    if (!job.settings->scheduling.preemptible || job.settings->priority >= priority) continue;
    if (std::find(shrink.begin(), shrink.end(), i) == shrink.end()) who.push_back(i);
  }
  return who;
}

std::vector<size_t> CheapestVictims(const std::vector<WorkerResources>& workers,
                                    const PreemptionInput& input, const std::vector<size_t>& who,
                                    const RankSize& rank, uint32_t ranks) {
  std::vector<VictimCandidate> candidates;
  for (size_t i : who) candidates.push_back(input.candidates[i]);
  std::vector<size_t> victims;
  for (size_t at : ChooseVictims(workers, candidates, rank, ranks)) victims.push_back(who[at]);
  return victims;
}

}  // namespace muster::controller
