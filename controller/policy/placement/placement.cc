#include "controller/policy/placement/placement.h"

#include <algorithm>
#include <utility>

namespace muster::controller {
namespace {

struct WorkerChoice {
  uint64_t worker_id = 0;
  uint32_t ranks = 0;  // that fit there; 0: nobody
};

// One gang in the making.
class PlacementSearch {
 public:
  PlacementSearch(WorkerIndex& index, int partition, Demand& demand)
      : index_(index), partition_(partition), demand_(demand), mask_(demand.Eligible(index)) {}

  // `worst`: workers up to this grade may be taken.
  std::vector<Grant> Run(uint32_t max_ranks, size_t worst) {
    std::vector<Grant> grants;
    uint32_t left = max_ranks;
    while (left > 0) {
      WorkerChoice choice = Smallest(left, worst);
      if (choice.ranks == 0) choice = Largest(worst);
      if (choice.ranks == 0) break;
      const uint32_t ranks = std::min(left, choice.ranks);
      grants.push_back(demand_.GrantOn(index_, choice.worker_id, ranks));
      index_.Take(grants.back(), demand_.kind());
      left -= ranks;
    }
    if (max_ranks - left >= demand_.needs().min_ranks) return grants;
    GiveBack(index_, demand_.kind(), grants);
    return {};
  }

 private:
  // The worker with the fewest free slots that holds all of `ranks`.
  WorkerChoice Smallest(uint32_t ranks, size_t worst) const {
    const size_t from = size_t{ranks} * demand_.needs().slots_per_rank;
    WorkerChoice found;
    for (size_t free = from; free < Most(); ++free) {
      for (size_t grade = 0; grade <= worst; ++grade) {
        if (Visit(free, grade, [&](const WorkerChoice& choice) {
              if (choice.ranks < ranks) return false;
              found = choice;
              return true;
            })) {
          return found;
        }
      }
    }
    return found;
  }

  // The worker that holds the most ranks.
  WorkerChoice Largest(size_t worst) const {
    const uint32_t slots_per_rank = demand_.needs().slots_per_rank;
    WorkerChoice best;
    for (size_t free = Most(); free-- > 0;) {
      const uint32_t bound = free / slots_per_rank;  // nobody from here on holds more
      if (bound == 0 || best.ranks >= bound) break;
      for (size_t grade = 0; grade <= worst; ++grade) {
        if (Visit(free, grade, [&](const WorkerChoice& choice) {
              if (choice.ranks > best.ranks) best = choice;
              return best.ranks >= bound;
            })) {
          return best;
        }
      }
    }
    return best;
  }

  // Calls visit for each eligible worker with so many free slots until it returns true.
  template <typename F>
  bool Visit(size_t free, size_t grade, F&& visit) const {
    const std::vector<IdSet>& by_free = index_.partition(partition_).by_free[grade];
    if (free >= by_free.size()) return false;
    return by_free[free].FindIf(mask_, [&](uint64_t id) {
      const uint32_t ranks = demand_.only_slots() ? free / demand_.needs().slots_per_rank
                                                  : demand_.RanksOn(index_.node(id));
      return visit(WorkerChoice{.worker_id = id, .ranks = ranks});
    });
  }

  size_t Most() const {
    size_t most = 0;
    for (const auto& by_free : index_.partition(partition_).by_free)
      most = std::max(most, by_free.size());
    return most;
  }

  WorkerIndex& index_;
  const int partition_;
  Demand& demand_;
  const IdSet* mask_;
};

uint32_t RanksIn(const std::vector<Grant>& grants, const Demand& demand) {
  size_t slots = 0;
  for (const Grant& grant : grants) slots += grant.slots.size();
  return static_cast<uint32_t>(slots / demand.needs().slots_per_rank);
}

}  // namespace

std::vector<Grant> FitGang(WorkerIndex& index, int partition, Demand& demand, uint32_t max_ranks) {
  const uint64_t most = index.partition(partition).free_slots / demand.needs().slots_per_rank;
  if (most < demand.needs().min_ranks || max_ranks < demand.needs().min_ranks) return {};
  PlacementSearch search(index, partition, demand);
  const uint32_t wanted = std::min<uint64_t>(max_ranks, most);
  std::vector<Grant> best = search.Run(wanted, /*worst=*/0);
  for (size_t worst = 1; worst < WorkerIndex::kGrades; ++worst) {
    if (RanksIn(best, demand) == wanted) break;
    if (index.partition(partition).ready_by_grade[worst] == 0) continue;
    GiveBack(index, demand.kind(), best);
    std::vector<Grant> larger = search.Run(wanted, worst);
    if (RanksIn(larger, demand) > RanksIn(best, demand)) {
      best = std::move(larger);
      continue;
    }
    GiveBack(index, demand.kind(), larger);
    for (const Grant& grant : best) index.Take(grant, demand.kind());
  }
  return best;
}

void GiveBack(WorkerIndex& index, SlotKind kind, const std::vector<Grant>& grants) {
  for (auto grant = grants.rbegin(); grant != grants.rend(); ++grant) index.Give(*grant, kind);
}

std::vector<RankPlacement> RanksOf(const WorkerIndex& index, const JobNeeds& needs,
                                   std::vector<Grant> grants) {
  std::sort(grants.begin(), grants.end(),
            [](const Grant& a, const Grant& b) { return a.worker_id < b.worker_id; });
  std::vector<RankPlacement> ranks;
  for (const Grant& grant : grants) {
    const std::string& worker = index.node(grant.worker_id).worker->name;
    uint32_t local_rank = 0;
    for (size_t at = 0; at < grant.slots.size(); at += needs.slots_per_rank) {
      const auto first = grant.slots.begin() + at;
      ranks.push_back({.worker = worker,
                       .slots = {first, first + needs.slots_per_rank},
                       .local_rank = local_rank++});
    }
  }
  return ranks;
}

}  // namespace muster::controller
