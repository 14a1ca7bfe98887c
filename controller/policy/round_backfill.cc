// The part of a round that keeps slots for the heads of partitions and lets others use them
// meanwhile.
#include <algorithm>
#include <utility>

#include "controller/policy/health/capacity.h"
#include "controller/policy/limits/run_time.h"
#include "controller/policy/scheduling_round.h"

namespace muster::controller {
namespace {

// What of the grant is still free.
Grant Rest(const WorkerIndex& index, SlotKind kind, const Grant& grant) {
  const WorkerIndex::Node& node = index.node(grant.worker_id);
  const std::vector<uint32_t>& free = node.kinds[WorkerIndex::At(kind)].free;
  Grant rest{.worker_id = grant.worker_id,
             .slots = {},
             .cpus = std::min(grant.cpus, node.free_cpus),
             .memory_bytes = std::min(grant.memory_bytes, node.free_memory)};
  for (uint32_t slot : grant.slots) {
    if (std::binary_search(free.rbegin(), free.rend(), slot)) rest.slots.push_back(slot);
  }
  return rest;
}

}  // namespace

// Whether a gang like this one would fit if it might use all that is kept until a known time.
bool SchedulingRound::GroupCouldUseKept(const Candidate& candidate, int partition) {
  if (partitions_[partition].kept.empty()) return false;
  if (backfill_tries_ >= world_.context.settings.max_backfill_tries) return false;
  const auto [it, fresh] = could_use_kept_.try_emplace(&candidate.group, false);
  if (!fresh) return it->second;
  Demand& demand = *candidate.group.demand;
  std::vector<const Kept*> lent;
  for (const Kept& kept : partitions_[partition].kept) {
    if (kept.until > world_.context.wall) lent.push_back(&kept);
  }
  for (const Kept* kept : lent) GiveBack(world_.index, kept->kind, kept->grants);
  const std::vector<Grant> grants =
      FitGang(world_.index, partition, demand, demand.needs().min_ranks);
  GiveBack(world_.index, demand.kind(), grants);
  for (const Kept* kept : lent) {
    for (const Grant& grant : kept->grants) world_.index.Take(grant, kept->kind);
  }
  it->second = !grants.empty();
  return it->second;
}

std::vector<Grant> SchedulingRound::PlaceInKept(const Candidate& candidate, int partition,
                                                absl::Time end) {
  std::vector<Kept*> lent;
  for (Kept& kept : partitions_[partition].kept) {
    if (kept.until >= end) lent.push_back(&kept);
  }
  if (lent.empty()) return {};
  ++backfill_tries_;
  for (const Kept* kept : lent) GiveBack(world_.index, kept->kind, kept->grants);
  std::vector<Grant> grants = Fit(candidate, partition, candidate.max_ranks);
  for (Kept* kept : lent) {
    for (Grant& grant : kept->grants) {
      grant = Rest(world_.index, kept->kind, grant);
      world_.index.Take(grant, kept->kind);
    }
  }
  return grants;
}

// The slots that its own dying attempt has given back already.
void SchedulingRound::KeepOwnSlots(const Candidate& candidate, int partition) {
  const SlotKind kind = candidate.group.demand->kind();
  Kept kept{.for_job = candidate.job.id, .until = world_.context.wall, .kind = kind, .grants = {}};
  for (const Rank& rank : candidate.job.current->ranks) {
    const Worker* worker = world_.snapshot.FindWorker(rank.worker);
    if (rank.holds_slots || worker == nullptr) continue;
    const WorkerIndex::Node& node = world_.index.node(worker->id);
    if (!node.takes_work || node.kinds[WorkerIndex::At(kind)].partition != partition) continue;
    Grant own{.worker_id = worker->id, .slots = rank.slots, .cpus = 0, .memory_bytes = 0};
    own = Rest(world_.index, kind, own);
    if (own.slots.empty()) continue;
    world_.index.Take(own, kind);
    kept.grants.push_back(std::move(own));
  }
  if (!kept.grants.empty()) partitions_[partition].kept.push_back(std::move(kept));
}

const std::vector<Release>& SchedulingRound::ReleasesOf(int partition) {
  const auto [it, fresh] = releases_.try_emplace(partition);
  if (!fresh) return it->second;
  std::vector<Release>& releases = it->second;
  const Moment moment{.wall = world_.context.wall, .now = world_.context.now};
  const absl::Time now = world_.snapshot.LedgerTime(moment.now);
  for (const auto& [end, id] : world_.running.ends()) {
    if (releases.size() >= world_.context.settings.max_releases) break;
    const Job& job = *world_.snapshot.FindJob(id);
    const absl::Time at =
        end > now ? moment.wall + (end - now) : ExpectedEnd(world_.snapshot, job, moment);
    if (at != absl::InfiniteFuture()) Collect(job, at, partition, releases);
  }
  std::stable_sort(releases.begin(), releases.end(),
                   [](const Release& a, const Release& b) { return a.at < b.at; });
  return releases;
}

// What the job's gang holds of the partition, as coming free then.
void SchedulingRound::Collect(const Job& job, absl::Time at, int partition,
                              std::vector<Release>& releases) const {
  const SlotKind kind = world_.index.partition(partition).kind;
  for (const Rank& rank : job.current->ranks) {
    const Worker* worker = rank.holds_slots ? world_.snapshot.FindWorker(rank.worker) : nullptr;
    if (worker == nullptr) continue;
    const WorkerIndex::Node& node = world_.index.node(worker->id);
    if (!node.takes_work || node.kinds[WorkerIndex::At(kind)].partition != partition) continue;
    Grant grant{.worker_id = worker->id, .slots = {}, .cpus = 0, .memory_bytes = 0};
    for (uint32_t slot : rank.slots) {
      const auto holder = worker->holders.find(slot);
      if (holder == worker->holders.end() || holder->second.job_id != job.id) continue;
      if (!HasSlot(*worker, slot, kind)) continue;
      grant.slots.push_back(slot);
      grant.cpus += holder->second.cpus;
      grant.memory_bytes += holder->second.memory_bytes;
    }
    if (grant.slots.empty()) continue;
    releases.push_back({.at = at, .job_id = job.id, .grant = std::move(grant)});
  }
}

// Of the partitions that it may go to the job becomes head of the one that does something for it:
// where gangs make room for it, or where it is known when it could start; else of the first.
void SchedulingRound::ReserveForHead(const Candidate& candidate) {
  Demand& demand = *candidate.group.demand;
  int first = -1;
  for (int partition : candidate.partitions) {
    if (demand.RanksWhenIdle(world_.index, partition) < demand.needs().min_ranks) continue;
    if (partitions_[partition].reserved_for != 0) {
      if (candidate.job.state == JobState::kRecovering) KeepOwnSlots(candidate, partition);
      if (candidate.soon) return;
      continue;  // another partition may have none yet
    }
    const size_t stops = decision_.plan.stop.size();
    Reservation reservation = ReserveFor(candidate, partition);
    const bool helps =
        reservation.start != absl::InfiniteFuture() || decision_.plan.stop.size() > stops;
    const bool only_choice = first < 0 && partition == candidate.partitions.back();
    if (helps || only_choice) return TakeReservation(candidate, partition, std::move(reservation));
    if (first < 0) first = partition;
    GiveBack(world_.index, demand.kind(), reservation.kept.grants);
  }
  if (first >= 0) TakeReservation(candidate, first, ReserveFor(candidate, first));
}

Reservation SchedulingRound::ReserveFor(const Candidate& candidate, int partition) {
  absl::Time earliest = world_.context.wall;
  if (candidate.soon && candidate.job.state == JobState::kPending) {
    earliest += candidate.job.not_before_at - world_.context.now;
  }
  Reservation reservation =
      Reserve(world_.index, partition, *candidate.group.demand, earliest, ReleasesOf(partition));
  if (candidate.soon) return reservation;
  return MakeRoomFor(candidate, partition, std::move(reservation));
}

void SchedulingRound::TakeReservation(const Candidate& candidate, int partition,
                                      Reservation reservation) {
  reservation.kept.for_job = candidate.job.id;
  partitions_[partition].reserved_for = candidate.job.id;
  const WorkerIndex::Partition& there = world_.index.partition(partition);
  decision_.reserved.push_back({.job_id = candidate.job.id,
                                .pool = there.pool,
                                .kind = there.kind,
                                .start = reservation.start});
  if (!reservation.kept.grants.empty())
    partitions_[partition].kept.push_back(std::move(reservation.kept));
}

}  // namespace muster::controller
