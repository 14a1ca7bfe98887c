#include "controller/policy/stages/reserve.h"

#include <utility>

#include "controller/policy/placement/placement.h"
#include "controller/policy/stages/backfill_reserved.h"
#include "controller/policy/stages/hold_back.h"
#include "controller/policy/stages/preempt.h"
#include "controller/policy/stages/releases.h"

namespace muster::controller {
namespace {

// Reserves the slots that its ending attempt has released already.
void KeepOwnSlots(Round& round, const Candidate& candidate, int partition) {
  const SlotKind kind = candidate.demand().kind();
  ReservedSlots reserved{
      .for_job = candidate.job.id, .until = round.context.wall, .kind = kind, .grants = {}};
  for (const Rank& rank : candidate.job.current->ranks) {
    const Worker* worker = round.snapshot.FindWorker(rank.worker);
    if (rank.holds_slots || worker == nullptr) continue;
    const WorkerIndex::Node& node = round.index.node(worker->id);
    if (!node.takes_work || node.kinds[WorkerIndex::At(kind)].partition != partition) continue;
    Grant own{.worker_id = worker->id, .slots = rank.slots, .cpus = 0, .memory_bytes = 0};
    own = FreePartOf(round.index, kind, own);
    if (own.slots.empty()) continue;
    round.index.Take(own, kind);
    reserved.grants.push_back(std::move(own));
  }
  if (!reserved.grants.empty())
    round.partitions[partition].reserved_slots.push_back(std::move(reserved));
}

Reservation ReserveIn(Round& round, const Candidate& candidate, int partition) {
  absl::Time earliest = round.context.wall;
  if (candidate.reserve_only && candidate.job.state == JobState::kPending) {
    earliest += candidate.job.not_before_at - round.context.now;
  }
  Reservation reservation =
      Reserve(round.index, partition, candidate.demand(), earliest, ReleasesOf(round, partition));
  if (candidate.reserve_only) return reservation;
  return Preempt(round, candidate, partition, std::move(reservation));
}

}  // namespace

void ReserveSlots(Round& round, const Candidate& candidate) {
  Demand& demand = candidate.demand();
  int first = -1;
  for (int partition : candidate.partitions) {
    if (demand.RanksWhenIdle(round.index, partition) < demand.needs().min_ranks) continue;
    if (round.partitions[partition].reserved_for != 0) {
      if (candidate.job.state == JobState::kRecovering) KeepOwnSlots(round, candidate, partition);
      if (candidate.reserve_only) return;
      continue;  // another partition may have none yet
    }
    const size_t stops = round.decision.plan.stop.size();
    Reservation reservation = ReserveIn(round, candidate, partition);
    const bool helps =
        reservation.start != absl::InfiniteFuture() || round.decision.plan.stop.size() > stops;
    const bool only_choice = first < 0 && partition == candidate.partitions.back();
    if (helps || only_choice) {
      return TakeReservation(round, candidate, partition, std::move(reservation));
    }
    if (first < 0) first = partition;
    GiveBack(round.index, demand.kind(), reservation.reserved_slots.grants);
  }
  if (first >= 0) TakeReservation(round, candidate, first, ReserveIn(round, candidate, first));
}

void TakeReservation(Round& round, const Candidate& candidate, int partition,
                     Reservation reservation) {
  PartitionState& state = round.partitions[partition];
  // Where nobody can tell when it starts, its project need not wait so long with all of its quota.
  const bool is_foretold = reservation.start != absl::InfiniteFuture();
  if (is_foretold) CountReserved(round, candidate, candidate.demand().min_slots());
  state.reserved_for = candidate.job.id;
  const WorkerIndex::Partition& there = round.index.partition(partition);
  round.decision.reserved.push_back({.job_id = candidate.job.id,
                                     .pool = there.pool,
                                     .kind = there.kind,
                                     .start = reservation.start});
  if (reservation.reserved_slots.grants.empty()) return;
  reservation.reserved_slots.for_job = candidate.job.id;
  state.reserved_slots.push_back(std::move(reservation.reserved_slots));
}

}  // namespace muster::controller
