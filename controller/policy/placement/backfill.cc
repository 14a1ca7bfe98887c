#include "controller/policy/placement/backfill.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace muster::controller {
namespace {

// What both grants give to the same worker.
void Join(Grant& into, const Grant& more) {
  std::vector<uint32_t> slots;
  std::merge(into.slots.begin(), into.slots.end(), more.slots.begin(), more.slots.end(),
             std::back_inserter(slots));
  into.slots = std::move(slots);
  into.cpus += more.cpus;
  into.memory_bytes += more.memory_bytes;
}

// Everything free on workers that could ever hold a rank of it.
std::vector<Grant> AllThatItCouldUse(WorkerIndex& index, int partition, Demand& demand) {
  std::vector<uint64_t> workers;
  const WorkerIndex::Partition& there = index.partition(partition);
  for (const std::vector<IdSet>& by_free : there.by_free) {
    for (size_t free = 1; free < by_free.size(); ++free) {
      by_free[free].FindIf(demand.Eligible(index), [&](uint64_t id) {
        if (demand.RanksOnIdle(index.node(id)) > 0) workers.push_back(id);
        return false;
      });
    }
  }
  std::vector<Grant> grants;
  for (uint64_t id : workers) {
    const std::vector<uint32_t>& free = index.node(id).kinds[WorkerIndex::At(demand.kind())].free;
    Grant grant{
        .worker_id = id, .slots = {free.rbegin(), free.rend()}, .cpus = 0, .memory_bytes = 0};
    index.Take(grant, demand.kind());
    grants.push_back(std::move(grant));
  }
  return grants;
}

// How much of what is free on the worker today has to stay free, so that `future` finds its place
// there: what exceeds the room that will be left beside it. `then` is the worker at that time, with
// the gang on it; `back` is what comes free until then.
Grant KeepNow(const Grant& future, const Grant& back, const WorkerIndex::Node& then,
              const Demand& demand) {
  Grant keep{.worker_id = future.worker_id, .slots = {}, .cpus = 0, .memory_bytes = 0};
  const WorkerIndex::Slots& slots = then.kinds[WorkerIndex::At(demand.kind())];
  const size_t left = slots.free.size();
  const size_t now = left + future.slots.size() - back.slots.size();
  // Where slots differ in model only the gang's own will do.
  const bool any_will_do = !slots.mixed || demand.needs().gpu_type.empty();
  const size_t count = any_will_do ? now - std::min(now, left) : future.slots.size();
  for (uint32_t slot : future.slots) {
    const bool is_free_now = !std::binary_search(back.slots.begin(), back.slots.end(), slot);
    if (is_free_now && keep.slots.size() < count) keep.slots.push_back(slot);
  }
  const uint32_t cpus_now = then.free_cpus + future.cpus - back.cpus;
  keep.cpus = cpus_now - std::min(cpus_now, then.free_cpus);
  const uint64_t memory_now = then.free_memory + future.memory_bytes - back.memory_bytes;
  keep.memory_bytes = memory_now - std::min(memory_now, then.free_memory);
  return keep;
}

}  // namespace

Reservation Reserve(WorkerIndex& index, int partition, Demand& demand, absl::Time earliest,
                    const std::vector<Release>& releases) {
  const SlotKind kind = demand.kind();
  Reservation reservation;
  reservation.reserved_slots.kind = kind;
  // The world as it will be: one release after the other, until the gang fits.
  std::map<uint64_t, Grant> given_back;  // by worker
  std::vector<Grant> gang;
  absl::Time start = earliest;
  size_t next = 0;
  for (;;) {
    while (next < releases.size() && releases[next].at <= start) {
      const Grant& grant = releases[next++].grant;
      index.Give(grant, kind);
      const auto [it, fresh] = given_back.emplace(grant.worker_id, grant);
      if (!fresh) Join(it->second, grant);
    }
    gang = FitGang(index, partition, demand, demand.needs().min_ranks);
    if (!gang.empty() || next == releases.size()) break;
    start = releases[next].at;
  }
  std::vector<Grant> keep;
  for (const Grant& grant : gang) {
    const auto back = given_back.find(grant.worker_id);
    const Grant nothing;
    keep.push_back(KeepNow(grant, back == given_back.end() ? nothing : back->second,
                           index.node(grant.worker_id), demand));
  }
  GiveBack(index, kind, gang);
  for (auto it = given_back.rbegin(); it != given_back.rend(); ++it) index.Take(it->second, kind);
  if (gang.empty()) {
    reservation.reserved_slots.until = absl::InfinitePast();
    reservation.reserved_slots.grants = AllThatItCouldUse(index, partition, demand);
    return reservation;
  }
  reservation.start = start;
  reservation.reserved_slots.until = start;
  for (Grant& grant : keep) {
    if (grant.slots.empty() && grant.cpus == 0 && grant.memory_bytes == 0) continue;
    index.Take(grant, kind);
    reservation.reserved_slots.grants.push_back(std::move(grant));
  }
  return reservation;
}

}  // namespace muster::controller
