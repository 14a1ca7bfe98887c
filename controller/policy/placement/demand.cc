#include "controller/policy/placement/demand.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

// Free slots of the kind and model on the worker.
uint32_t MatchingSlots(const Worker& worker, const JobNeeds& needs,
                       const std::vector<uint32_t>& free) {
  uint32_t count = 0;
  for (const Slot& slot : worker.facts.slots) {
    count += SlotMatches(slot, needs) && std::binary_search(free.rbegin(), free.rend(), slot.index);
  }
  return count;
}

}  // namespace

Demand::Demand(JobNeeds needs)
    : needs_(std::move(needs)),
      picky_(!needs_.selector.empty() || !needs_.exclude.empty() || !needs_.gpu_type.empty() ||
             needs_.commands || needs_.image != JobNeeds::Image::kNone),
      looks_(!needs_.root.empty() || !needs_.data.empty()),
      only_slots_(needs_.cpus_per_rank == 0 && needs_.memory_per_rank == 0 &&
                  needs_.gpu_type.empty()) {}

std::string Demand::KeyOf(const JobNeeds& needs) {
  std::string key = absl::StrCat(
      needs.min_ranks, ",", needs.max_ranks, ",", static_cast<int>(needs.slot_kind), ",",
      needs.slots_per_rank, ",", needs.cpus_per_rank, ",", needs.memory_per_rank, ",",
      needs.wait_for_capacity, ",", needs.commands, ",", static_cast<int>(needs.image), ",",
      needs.gpu_type, "\n", needs.root, "\n", needs.data, "\n");
  for (const JobNeeds::Pool& pool : needs.pools) {
    absl::StrAppend(&key, pool.name, "@", absl::ToInt64Milliseconds(pool.after), "\n");
  }
  for (const auto& [label, value] : needs.selector) absl::StrAppend(&key, label, "=", value, "\n");
  for (const std::string& worker : needs.exclude) absl::StrAppend(&key, "-", worker, "\n");
  return key;
}

void Demand::Refresh(const WorkerIndex& index) {
  if (fresh_ && facts_version_ == index.facts_version()) return;
  fresh_ = true;
  facts_version_ = index.facts_version();
  when_idle_.clear();
  if (!picky_ && !looks_) return;
  eligible_ = IdSet();
  all_eligible_ = true;
  data_ruled_out_ = false;
  std::vector<const Worker*> workers;
  for (uint64_t id = 0; id < index.nodes(); ++id) {
    if (index.node(id).worker != nullptr) workers.push_back(index.node(id).worker);
  }
  const DataSight data(needs_.data, workers);
  for (const Worker* worker : workers) {
    const uint64_t id = worker->id;
    const bool suits = IsEligible(*worker, needs_);
    const bool ruled_out = data.RulesOut(*worker);
    const bool can_use = CanUseRoot(*worker, needs_) && !ruled_out;
    if (suits && ruled_out && TakesWork(*worker)) data_ruled_out_ = true;
    if (suits && can_use) eligible_.Add(id);
    // One that takes no work now may be able to use it when it does.
    if (!suits || (!can_use && TakesWork(*worker))) all_eligible_ = false;
  }
}

const IdSet* Demand::Eligible(const WorkerIndex& index) {
  if (!picky_ && !looks_) return nullptr;
  Refresh(index);
  return all_eligible_ ? nullptr : &eligible_;
}

bool Demand::IsDataRuledOut(const WorkerIndex& index) {
  if (needs_.data.empty()) return false;
  Refresh(index);
  return data_ruled_out_;
}

uint32_t Demand::RanksOn(const WorkerIndex::Node& node) const {
  const WorkerIndex::Slots& slots = node.kinds[WorkerIndex::At(needs_.slot_kind)];
  const bool sieve = !needs_.gpu_type.empty() && slots.mixed;
  uint64_t ranks = (sieve ? MatchingSlots(*node.worker, needs_, slots.free) : slots.free.size()) /
                   needs_.slots_per_rank;
  if (needs_.cpus_per_rank > 0) {
    ranks = std::min<uint64_t>(ranks, node.free_cpus / needs_.cpus_per_rank);
  }
  if (needs_.memory_per_rank > 0) {
    ranks = std::min(ranks, node.free_memory / needs_.memory_per_rank);
  }
  return ranks;
}

uint32_t Demand::RanksOnIdle(const WorkerIndex::Node& node) const {
  if (!picky_ && only_slots_) {
    return node.kinds[WorkerIndex::At(needs_.slot_kind)].total / needs_.slots_per_rank;
  }
  return IdleRanks(*node.worker, needs_);
}

uint64_t Demand::RanksWhenIdle(const WorkerIndex& index, int partition) {
  Refresh(index);
  const auto [it, fresh] = when_idle_.emplace(partition, 0);
  if (!fresh) return it->second;
  index.partition(partition).workers.FindIf(Eligible(index), [&](uint64_t id) {
    const WorkerIndex::Node& node = index.node(id);
    if (node.usable) it->second += RanksOnIdle(node);
    return false;
  });
  return it->second;
}

Grant Demand::GrantOn(const WorkerIndex& index, uint64_t worker_id, uint32_t ranks) const {
  const WorkerIndex::Node& node = index.node(worker_id);
  const WorkerIndex::Slots& slots = node.kinds[WorkerIndex::At(needs_.slot_kind)];
  Grant grant{.worker_id = worker_id,
              .slots = {},
              .cpus = ranks * needs_.cpus_per_rank,
              .memory_bytes = ranks * needs_.memory_per_rank};
  const size_t count = size_t{ranks} * needs_.slots_per_rank;
  grant.slots.reserve(count);
  const bool sieve = !needs_.gpu_type.empty() && slots.mixed;
  for (auto slot = slots.free.rbegin(); slot != slots.free.rend() && grant.slots.size() < count;
       ++slot) {
    if (!sieve) {
      grant.slots.push_back(*slot);
      continue;
    }
    for (const Slot& known : node.worker->facts.slots) {
      if (known.index == *slot && SlotMatches(known, needs_)) grant.slots.push_back(*slot);
    }
  }
  return grant;
}

}  // namespace muster::controller
