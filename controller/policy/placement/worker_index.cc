#include "controller/policy/placement/worker_index.h"

#include <algorithm>
#include <functional>

#include "common/base/check.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

WorkerIndex::Slots CountSlots(const Worker& worker, SlotKind kind, int partition) {
  WorkerIndex::Slots slots;
  const std::string* model = nullptr;
  for (const Slot& slot : worker.facts.slots) {
    if (slot.kind != kind) continue;
    ++slots.total;
    if (model != nullptr && *model != slot.device) slots.mixed = true;
    model = &slot.device;
    if (worker.pulse.holders.count(slot.index) == 0) slots.free.push_back(slot.index);
  }
  std::sort(slots.free.begin(), slots.free.end(), std::greater<>());
  slots.partition = slots.total == 0 ? -1 : partition;
  return slots;
}

bool HasKind(const Worker& worker, SlotKind kind) {
  return std::any_of(worker.facts.slots.begin(), worker.facts.slots.end(),
                     [kind](const Slot& slot) { return slot.kind == kind; });
}

}  // namespace

int WorkerIndex::FindPartition(const std::string& pool, SlotKind kind) const {
  const auto it = partition_ids_.find({pool, kind});
  return it == partition_ids_.end() ? -1 : it->second;
}

int WorkerIndex::AddPartition(const std::string& pool, SlotKind kind) {
  const auto [it, fresh] = partition_ids_.emplace(std::make_pair(pool, kind), partitions_.size());
  if (fresh) {
    partitions_.emplace_back();
    partitions_.back().pool = pool;
    partitions_.back().kind = kind;
  }
  return it->second;
}

void WorkerIndex::Move(uint64_t id, const Slots& slots, bool in) {
  const Node& node = nodes_[id];
  if (slots.partition < 0 || !node.takes_work) return;
  std::vector<IdSet>& by_free = partitions_[slots.partition].by_free[node.grade];
  const size_t free = slots.free.size();
  if (free >= by_free.size()) by_free.resize(free + 1);
  if (in) {
    by_free[free].Add(id);
  } else {
    by_free[free].Remove(id);
  }
}

void WorkerIndex::Count(uint64_t id, int sign) {
  const Node& node = nodes_[id];
  for (const Slots& slots : node.kinds) {
    if (slots.partition < 0) continue;
    Partition& partition = partitions_[slots.partition];
    if (node.usable) partition.usable_slots += sign * int64_t{slots.total};
    if (node.takes_work) partition.ready_workers += sign;
    if (node.takes_work) partition.ready_by_grade[node.grade] += sign;
    if (node.takes_work) partition.free_slots += sign * static_cast<int64_t>(slots.free.size());
    if (sign > 0) {
      partition.workers.Add(id);
    } else {
      partition.workers.Remove(id);
    }
    Move(id, slots, sign > 0);
  }
}

void WorkerIndex::Advance(absl::Time now, absl::Duration incident_window) {
  while (!fading_.empty() && fading_.begin()->first < now) {
    const Worker& worker = *nodes_[fading_.begin()->second].worker;
    Put(worker, now, incident_window);  // it leaves the front: what has faded counts no more
  }
}

void WorkerIndex::Put(const Worker& worker, absl::Time now, absl::Duration incident_window) {
  if (worker.id >= nodes_.size()) nodes_.resize(worker.id + 1);
  Node& node = nodes_[worker.id];
  const bool usable = IsUsable(worker);
  const bool same = node.worker != nullptr && node.usable == usable &&
                    node.takes_work == TakesWork(worker) &&
                    node.worker->pulse.roots == worker.pulse.roots &&
                    node.worker->pulse.data == worker.pulse.data &&
                    node.worker->pulse.checks_data == worker.pulse.checks_data &&
                    (&node.worker->facts == &worker.facts || node.worker->facts == worker.facts);
  if (!same) ++facts_version_;
  if (node.worker != nullptr) Count(worker.id, -1);
  fading_.erase({node.fades, worker.id});
  node.fades = IncidentsFade(worker, incident_window, now);
  if (node.fades != absl::InfiniteFuture()) fading_.insert({node.fades, worker.id});
  node.worker = &worker;
  node.usable = usable;
  node.takes_work = TakesWork(worker);
  node.grade = std::min<size_t>(IncidentsAgainst(worker, incident_window, now), kGrades - 1);
  for (SlotKind kind : {SlotKind::kCpu, SlotKind::kGpu}) {
    const int partition = HasKind(worker, kind) ? AddPartition(worker.facts.pool, kind) : -1;
    node.kinds[At(kind)] = partition < 0 ? Slots() : CountSlots(worker, kind, partition);
  }
  node.free_cpus = worker.facts.cpus;
  node.free_memory = worker.facts.memory_bytes;
  for (const auto& [slot, holder] : worker.pulse.holders) {
    node.free_cpus -= std::min(node.free_cpus, holder.cpus);
    node.free_memory -= std::min(node.free_memory, holder.memory_bytes);
  }
  Count(worker.id, +1);
}

void WorkerIndex::Remove(uint64_t id) {
  if (id >= nodes_.size() || nodes_[id].worker == nullptr) return;
  Count(id, -1);
  fading_.erase({nodes_[id].fades, id});
  nodes_[id] = Node();
  ++facts_version_;
}

void WorkerIndex::Take(const Grant& grant, SlotKind kind) {
  Node& node = nodes_[grant.worker_id];
  Slots& slots = node.kinds[At(kind)];
  Move(grant.worker_id, slots, /*in=*/false);
  for (uint32_t slot : grant.slots) {
    if (!slots.free.empty() && slots.free.back() == slot) {
      slots.free.pop_back();
      continue;
    }
    const auto at = std::lower_bound(slots.free.begin(), slots.free.end(), slot, std::greater<>());
    MUSTER_CHECK(at != slots.free.end() && *at == slot, "a slot was taken that is not free");
    slots.free.erase(at);
  }
  node.free_cpus -= grant.cpus;
  node.free_memory -= grant.memory_bytes;
  partitions_[slots.partition].free_slots -= node.takes_work ? grant.slots.size() : 0;
  Move(grant.worker_id, slots, /*in=*/true);
}

void WorkerIndex::Give(const Grant& grant, SlotKind kind) {
  Node& node = nodes_[grant.worker_id];
  Slots& slots = node.kinds[At(kind)];
  Move(grant.worker_id, slots, /*in=*/false);
  for (auto slot = grant.slots.rbegin(); slot != grant.slots.rend(); ++slot) {
    const auto at = std::lower_bound(slots.free.begin(), slots.free.end(), *slot, std::greater<>());
    slots.free.insert(at, *slot);
  }
  node.free_cpus += grant.cpus;
  node.free_memory += grant.memory_bytes;
  partitions_[slots.partition].free_slots += node.takes_work ? grant.slots.size() : 0;
  Move(grant.worker_id, slots, /*in=*/true);
}

}  // namespace muster::controller
