#include "controller/policy/placement/preemption.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

// The exact search is for so many candidates at most, and ends after so many steps: the set found
// so far stands then.
constexpr size_t kMaxSearched = 40;
constexpr int kMaxSearchSteps = 20'000;

// The workers' free resources while jobs are taken out and put back.
class FreeResources {
 public:
  FreeResources(std::vector<WorkerResources> workers, const RankSize& rank)
      : workers_(std::move(workers)), rank_(rank) {
    for (const WorkerResources& worker : workers_) {
      ranks_ += RanksIn(worker, rank_);
      slots_ += worker.slots;
    }
  }

  void Remove(const VictimCandidate& job) { Change(job, +1); }
  void PutBack(const VictimCandidate& job) { Change(job, -1); }
  uint32_t ranks() const { return ranks_; }
  int64_t slots() const { return slots_; }

  uint32_t Gain(const VictimCandidate& job) {
    const uint32_t before = ranks_;
    Remove(job);
    const uint32_t gain = ranks_ - before;
    PutBack(job);
    return gain;
  }

 private:
  void Change(const VictimCandidate& job, int sign) {
    for (const VictimCandidate::Held& held : job.held) {
      WorkerResources& worker = workers_[held.worker];
      ranks_ -= RanksIn(worker, rank_);
      worker.slots += sign * held.what.slots;
      worker.cpus += sign * held.what.cpus;
      worker.memory_bytes += sign * held.what.memory_bytes;
      slots_ += sign * held.what.slots;
      ranks_ += RanksIn(worker, rank_);
    }
  }

  std::vector<WorkerResources> workers_;
  const RankSize rank_;
  uint32_t ranks_ = 0;
  int64_t slots_ = 0;
};

int64_t SlotsOf(const VictimCandidate& job) {
  return std::accumulate(job.held.begin(), job.held.end(), int64_t{0},
                         [](int64_t sum, const auto& held) { return sum + held.what.slots; });
}

// Candidates in order: what is lost, then priority, then the later submit.
using Ordered = std::vector<std::pair<size_t, const VictimCandidate*>>;

Ordered InOrder(const std::vector<VictimCandidate>& candidates) {
  Ordered ordered;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].held.empty()) ordered.emplace_back(i, &candidates[i]);
  }
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(a.second->cost, a.second->priority, ~a.second->job_id) <
           std::make_tuple(b.second->cost, b.second->priority, ~b.second->job_id);
  });
  return ordered;
}

// Places in the order; ascending.
struct Set {
  int64_t cost = std::numeric_limits<int64_t>::max();
  std::vector<size_t> members;

  auto Key() const { return std::make_tuple(cost, members.size(), members); }
};

int64_t CostOf(const Ordered& ordered, const std::vector<size_t>& members) {
  int64_t cost = 0;
  for (size_t at : members) cost += ordered[at].second->cost;
  return cost;
}

// One after the other, each time the least cost for a rank more; where nobody alone gives a rank,
// for a slot more. Then those that turned out superfluous go back, the dearest first.
Set Greedy(FreeResources free, const Ordered& ordered, uint32_t ranks) {
  std::vector<bool> in(ordered.size(), false);
  while (free.ranks() < ranks) {
    size_t best = ordered.size();
    auto best_key = std::make_tuple(true, 0.0);  // gives no rank, cost for what it gives
    for (size_t at = 0; at < ordered.size(); ++at) {
      if (in[at]) continue;
      const VictimCandidate& job = *ordered[at].second;
      const uint32_t gain = std::min(free.Gain(job), ranks - free.ranks());
      const double given = gain > 0 ? gain : SlotsOf(job);
      const auto key = std::make_tuple(gain == 0, static_cast<double>(job.cost + 1) / given);
      if (best == ordered.size() || key < best_key) {
        best = at;
        best_key = key;
      }
    }
    if (best == ordered.size()) return {};
    in[best] = true;
    free.Remove(*ordered[best].second);
  }
  Set set;
  for (size_t at = ordered.size(); at-- > 0;) {
    if (!in[at]) continue;
    free.PutBack(*ordered[at].second);
    if (free.ranks() >= ranks) continue;
    free.Remove(*ordered[at].second);
    set.members.insert(set.members.begin(), at);
  }
  set.cost = CostOf(ordered, set.members);
  return set;
}

// Depth first, the cheapest first; a branch ends where it costs more than the best set so far.
class VictimSearch {
 public:
  VictimSearch(FreeResources free, const Ordered& ordered, uint32_t ranks, int64_t slots_needed,
               Set best)
      : free_(std::move(free)),
        ordered_(ordered),
        ranks_(ranks),
        slots_needed_(slots_needed),
        best_(std::move(best)),
        slots_from_(ordered.size() + 1, 0) {
    for (size_t at = ordered.size(); at-- > 0;) {
      slots_from_[at] = slots_from_[at + 1] + SlotsOf(*ordered[at].second);
    }
  }

  Set Run() {
    Descend(0, 0);
    return std::move(best_);
  }

 private:
  void Descend(size_t at, int64_t cost) {
    if (++steps_ > kMaxSearchSteps) return;
    if (free_.ranks() >= ranks_) {
      Set found{.cost = cost, .members = members_};
      if (found.Key() < best_.Key()) best_ = std::move(found);
      return;
    }
    if (at == ordered_.size() || free_.slots() + slots_from_[at] < slots_needed_) return;
    const VictimCandidate& job = *ordered_[at].second;
    // All that follow cost at least as much.
    if (cost + job.cost > best_.cost) return;
    if (cost + job.cost == best_.cost && members_.size() + 1 > best_.members.size()) return;
    free_.Remove(job);
    members_.push_back(at);
    Descend(at + 1, cost + job.cost);
    members_.pop_back();
    free_.PutBack(job);
    Descend(at + 1, cost);
  }

  FreeResources free_;
  const Ordered& ordered_;
  const uint32_t ranks_;
  const int64_t slots_needed_;
  Set best_;
  std::vector<int64_t> slots_from_;  // that the candidates from there on hold
  std::vector<size_t> members_;
  int steps_ = 0;
};

}  // namespace

uint32_t RanksIn(const WorkerResources& worker, const RankSize& rank) {
  int64_t ranks = std::max<int64_t>(worker.slots, 0) / rank.slots;
  if (rank.cpus > 0) ranks = std::min(ranks, std::max<int64_t>(worker.cpus, 0) / rank.cpus);
  if (rank.memory_bytes > 0) {
    ranks = std::min<int64_t>(
        ranks, std::max<int64_t>(worker.memory_bytes, 0) / static_cast<int64_t>(rank.memory_bytes));
  }
  return static_cast<uint32_t>(ranks);
}

std::vector<size_t> ChooseVictims(const std::vector<WorkerResources>& workers,
                                  const std::vector<VictimCandidate>& candidates,
                                  const RankSize& rank, uint32_t ranks) {
  const FreeResources free(workers, rank);
  if (free.ranks() >= ranks) return {};
  const Ordered ordered = InOrder(candidates);
  Set best = Greedy(free, ordered, ranks);
  if (best.members.empty()) return {};
  if (ordered.size() <= kMaxSearched) {
    best = VictimSearch(free, ordered, ranks, int64_t{ranks} * rank.slots, std::move(best)).Run();
  }
  std::vector<size_t> victims;
  for (size_t at : best.members) victims.push_back(ordered[at].first);
  std::sort(victims.begin(), victims.end());
  return victims;
}

int64_t SlotSecondsAtStake(const Snapshot& snapshot, const Job& job, absl::Time now) {
  absl::Time since = HeldFrom(*job.current);
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint& checkpoint = *snapshot.FindCheckpoint(*id);
    if (checkpoint.state != CheckpointState::kVerified) continue;
    since = std::max(since, CreatedAt(checkpoint));
    break;
  }
  int64_t slots = 0;
  for (const Rank& rank : job.current->ranks) {
    if (rank.holds_slots) slots += static_cast<int64_t>(rank.slots.size());
  }
  return slots * absl::ToInt64Seconds(std::max(now - since, absl::ZeroDuration()));
}

int64_t SlotSecondsLost(const Snapshot& snapshot, const Job& job, absl::Time now) {
  const absl::Time since = std::max(HeldFrom(*job.current), SavedUpTo(snapshot, job));
  int64_t slots = 0;
  for (const Rank& rank : job.current->ranks) slots += static_cast<int64_t>(rank.slots.size());
  return slots * absl::ToInt64Seconds(std::max(now - since, absl::ZeroDuration()));
}

absl::Time SavedUpTo(const Snapshot& snapshot, const Job& job) {
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint& checkpoint = *snapshot.FindCheckpoint(*id);
    if (checkpoint.attempt != job.current->number) continue;
    if (checkpoint.restorable()) return CreatedAt(checkpoint);
  }
  return absl::InfinitePast();
}

bool WasStoppedFor(const Job& job, const Job& other) {
  const absl::Time placed =
      other.current == nullptr ? absl::InfinitePast() : HeldFrom(*other.current);
  return std::any_of(job.past.begin(), job.past.end(), [&](const auto& attempt) {
    return attempt->preempted_by == other.id && HeldUntil(*attempt) > placed;
  });
}

uint64_t WaitingPreemptor(const Snapshot& snapshot, const Job& job, absl::Time now) {
  if (job.current == nullptr || job.current->preempted_by == 0) return 0;
  const absl::Time left = HeldUntil(*job.current);
  if (now - left >= kPreemptorWait) return 0;
  const Job* other = snapshot.FindJob(job.current->preempted_by);
  if (other == nullptr || other->state != JobState::kPending || other->held) return 0;
  // It had them meanwhile, and waits anew.
  if (other->current != nullptr && HeldFrom(*other->current) >= left) return 0;
  return other->id;
}

}  // namespace muster::controller
