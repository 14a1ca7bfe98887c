#include "controller/policy/capacity.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::controller {
namespace {

bool CarriesLabels(const Worker& worker, const std::map<std::string, std::string>& selector) {
  return std::all_of(selector.begin(), selector.end(), [&worker](const auto& label) {
    const auto it = worker.facts.labels.find(label.first);
    return it != worker.facts.labels.end() && it->second == label.second;
  });
}

std::string Plural(uint64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::set<std::string> KnownPools(const Snapshot& snapshot) {
  std::set<std::string> pools;
  snapshot.workers.ForEach([&pools](const Worker& worker) { pools.insert(worker.facts.pool); });
  return pools;
}

}  // namespace

bool TakesWork(const Worker& worker, const JobNeeds& needs) {
  return worker.connected && worker.presence == Presence::kReady && !worker.draining &&
         !worker.cordoned && !worker.quarantined() &&
         worker.facts.pool == needs.pools.front().name && CarriesLabels(worker, needs.selector);
}

Capacity CountCapacity(const Snapshot& snapshot, const JobNeeds& needs, const TakenSlots& taken) {
  Capacity capacity;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (worker.facts.pool != needs.pools.front().name) return;
    ++capacity.pool_workers;
    if (!CarriesLabels(worker, needs.selector)) return;
    const bool takes_work = TakesWork(worker, needs);
    if (takes_work) ++capacity.ready_workers;
    const auto planned = taken.find(worker.name);
    Capacity::Free free{.worker = worker.name, .slots = {}};
    for (const Slot& slot : worker.facts.slots) {
      if (slot.kind != needs.slot_kind) continue;
      ++capacity.known_slots;
      if (worker.presence != Presence::kLost && !worker.draining) ++capacity.usable_slots;
      const bool is_taken = worker.holders.count(slot.index) != 0 ||
                            (planned != taken.end() && planned->second.count(slot.index) != 0);
      if (takes_work && !is_taken) free.slots.push_back(slot.index);
    }
    if (free.slots.empty()) return;
    std::sort(free.slots.begin(), free.slots.end());
    capacity.free_slots += free.slots.size();
    capacity.free.push_back(std::move(free));
  });
  std::sort(capacity.free.begin(), capacity.free.end(),
            [](const Capacity::Free& a, const Capacity::Free& b) {
              return a.slots.size() != b.slots.size() ? a.slots.size() > b.slots.size()
                                                      : a.worker < b.worker;
            });
  return capacity;
}

std::vector<RankPlacement> PlaceRanks(const Capacity& capacity, const JobNeeds& needs) {
  if (capacity.free_slots < needs.min_ranks) return {};
  uint32_t left = std::min(needs.max_ranks, capacity.free_slots);
  // Largest first needs the fewest workers; the last one is the smallest that still holds the rest,
  // so that large holes stay whole.
  std::vector<const Capacity::Free*> chosen;
  for (size_t i = 0; i < capacity.free.size() && left > 0; ++i) {
    const Capacity::Free* take = &capacity.free[i];
    if (take->slots.size() >= left) {
      for (size_t j = i; j < capacity.free.size() && capacity.free[j].slots.size() >= left; ++j) {
        if (capacity.free[j].slots.size() < take->slots.size()) take = &capacity.free[j];
      }
    }
    chosen.push_back(take);
    left -= std::min<uint32_t>(left, take->slots.size());
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const auto* a, const auto* b) { return a->worker < b->worker; });
  left = std::min(needs.max_ranks, capacity.free_slots);
  std::vector<RankPlacement> ranks;
  // Ranks go round the chosen workers' slots in order of name; whoever is chosen last may be filled
  // in part.
  std::vector<uint32_t> quota(chosen.size(), 0);
  uint32_t total = 0;
  for (const auto* worker : chosen) total += worker->slots.size();
  uint32_t spare = total - left;
  for (size_t i = 0; i < chosen.size(); ++i) quota[i] = chosen[i]->slots.size();
  for (size_t i = chosen.size(); i-- > 0 && spare > 0;) {
    const uint32_t give_back = std::min(spare, quota[i]);
    quota[i] -= give_back;
    spare -= give_back;
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (uint32_t local = 0; local < quota[i]; ++local) {
      ranks.push_back(
          {.worker = chosen[i]->worker, .slots = {chosen[i]->slots[local]}, .local_rank = local});
    }
  }
  return ranks;
}

std::string DescribeNeeds(const JobNeeds& needs) {
  std::string text = absl::StrCat(
      Plural(needs.min_ranks, SlotKindName(needs.slot_kind) == "GPU" ? "GPU slot" : "CPU slot"),
      " in pool ", needs.pools.front().name);
  if (!needs.selector.empty()) {
    absl::StrAppend(
        &text, " (labels: ", absl::StrJoin(needs.selector, ", ", absl::PairFormatter("=")), ")");
  }
  return text;
}

std::string DescribeAvailable(const Capacity& capacity) {
  return absl::StrCat(capacity.free_slots, " of ", capacity.usable_slots, " free on ",
                      Plural(capacity.ready_workers, "ready worker"));
}

absl::Status CanEverFit(const Snapshot& snapshot, const JobNeeds& needs) {
  if (needs.wait_for_capacity) return absl::OkStatus();
  const Capacity capacity = CountCapacity(snapshot, needs, {});
  if (capacity.known_slots >= needs.min_ranks) return absl::OkStatus();
  if (capacity.pool_workers == 0) {
    // Before the first worker has come nobody can tell; a pool without any beside others is a slip.
    const std::set<std::string> pools = KnownPools(snapshot);
    if (pools.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "refused: pool ", needs.pools.front().name, " has no workers; those with workers: ",
        absl::StrJoin(pools, ", "), "; or set placement.wait_for_capacity: true"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "refused: needs ", DescribeNeeds(needs), ", but its ",
      Plural(capacity.pool_workers, "worker"), " could give at most ", capacity.known_slots,
      "; ask for fewer ranks, add workers, or set placement.wait_for_capacity: true"));
}

absl::StatusOr<std::string> Forecast(const Snapshot& snapshot, const JobNeeds& needs) {
  if (absl::Status fits = CanEverFit(snapshot, needs); !fits.ok()) return fits;
  const Capacity capacity = CountCapacity(snapshot, needs, {});
  const std::vector<RankPlacement> ranks = PlaceRanks(capacity, needs);
  if (ranks.empty()) {
    return absl::StrCat("would wait: needs ", DescribeNeeds(needs), ", ",
                        DescribeAvailable(capacity));
  }
  uint32_t ahead = 0;
  for (uint64_t id : *snapshot.active_jobs) {
    const Job& job = *snapshot.FindJob(id);
    const bool same_line = job.settings->needs.pools.front().name == needs.pools.front().name &&
                           job.settings->needs.slot_kind == needs.slot_kind;
    if (job.state == JobState::kPending && same_line) ++ahead;
  }
  if (ahead > 0) {
    return absl::StrCat("would wait behind ", Plural(ahead, "job"), " in pool ",
                        needs.pools.front().name);
  }
  std::vector<std::string> workers;
  for (const RankPlacement& rank : ranks) {
    if (workers.empty() || workers.back() != rank.worker) workers.push_back(rank.worker);
  }
  return absl::StrCat("would start now: ", Plural(ranks.size(), "rank"), " on ",
                      absl::StrJoin(workers, ", "));
}

}  // namespace muster::controller
