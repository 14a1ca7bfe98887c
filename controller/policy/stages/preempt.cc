#include "controller/policy/stages/preempt.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/placement/elastic.h"
#include "controller/policy/placement/placement.h"
#include "controller/policy/placement/plan_preemption.h"
#include "controller/policy/stages/data_looks.h"
#include "controller/policy/stages/fit.h"
#include "controller/policy/stages/releases.h"
#include "controller/policy/stages/reserve.h"

namespace muster::controller {
namespace {

// Where enough comes free within this time anyway, no gang is stopped: saving takes as long.
constexpr absl::Duration kPatience = absl::Seconds(30);

// No gang that may be preempted has lower priority, and none is elastic.
bool IsHopeless(const Round& round, int32_t priority) {
  return !round.running.AnyBelow(priority) && round.running.elastic().empty();
}

void Stop(Round& round, std::vector<StopGang> stops, int partition) {
  ReleaseAtOnce(round, stops, partition);
  std::move(stops.begin(), stops.end(), std::back_inserter(round.decision.plan.stop));
}

// What the gangs hold there that are stopped for the candidate, or leave already.
std::vector<Release> HeldByLeaving(const Round& round, const std::vector<StopGang>& stops,
                                   int partition) {
  std::vector<Release> held;
  const auto collect = [&](uint64_t id) {
    const Job& job = *round.snapshot.FindJob(id);
    CollectReleases(round, job, round.context.wall, partition, held);
  };
  for (const StopGang& stop : stops) collect(stop.job_id);
  for (const auto& [end, id] : round.running.ends()) {
    if (end != absl::InfinitePast()) break;
    collect(id);
  }
  return held;
}

// Whether the candidate's data must be looked at first on workers that it would come to when the
// gangs have left: nobody is stopped for data that may not be there.
bool AwaitsLooksOnceGone(Round& round, const Candidate& candidate, int partition,
                         const std::vector<StopGang>& stops) {
  const bool may_await = !candidate.needs().data.empty() && round.settings.awaits_data_looks;
  if (stops.empty() || !may_await) return false;
  Demand& demand = candidate.demand();
  const std::vector<Release> held = HeldByLeaving(round, stops, partition);
  for (const Release& release : held) round.index.Give(release.grant, demand.kind());
  const std::vector<Grant> grants =
      Fit(round, candidate, partition, std::max(candidate.max_ranks, candidate.needs().min_ranks));
  GiveBack(round.index, demand.kind(), grants);
  for (auto release = held.rbegin(); release != held.rend(); ++release) {
    round.index.Take(release->grant, demand.kind());
  }
  return AwaitsDataLooks(round, candidate.job, grants);
}

// Requests a round when an elastic gang of the same priority reaches shrink_after.
void AwaitShrinking(Round& round, int32_t priority) {
  for (uint64_t id : round.running.elastic()) {
    const Job& job = *round.snapshot.FindJob(id);
    if (job.settings->priority != priority || !MayShrink(job)) continue;
    const absl::Duration age = round.LedgerNow() - HeldFrom(*job.current);
    round.RunAgainIn(round.settings.elastic.shrink_after - age);
  }
}

}  // namespace

Reservation Preempt(Round& round, const Candidate& candidate, int partition,
                    Reservation reservation) {
  const int32_t priority = candidate.job.settings->priority;
  if (IsHopeless(round, priority)) return reservation;
  if (reservation.start <= round.context.wall + kPatience) {
    // It may not have come free by then.
    round.RunAgainIn(reservation.start + absl::Seconds(1) - round.context.wall);
    return reservation;
  }
  Demand& demand = candidate.demand();
  GiveBack(round.index, demand.kind(), reservation.reserved_slots.grants);
  std::vector<StopGang> stops =
      PlanPreemption(round.snapshot, round.index, {candidate.job, demand, partition},
                     round.settings.elastic, round.LedgerNow());
  if (stops.empty()) AwaitShrinking(round, priority);
  if (AwaitsLooksOnceGone(round, candidate, partition, stops)) stops.clear();
  Stop(round, std::move(stops), partition);
  return Reserve(round.index, partition, demand, round.context.wall, ReleasesOf(round, partition));
}

bool PreemptOwnProject(Round& round, const Candidate& candidate, const SlotsOver& over) {
  if (IsHopeless(round, candidate.job.settings->priority)) return false;
  Demand& demand = candidate.demand();
  for (int partition : round.PartitionsOf(candidate.job)) {
    if (demand.RanksWhenIdle(round.index, partition) < demand.needs().min_ranks) continue;
    if (round.partitions[partition].reserved_for != 0) return false;
    std::optional<std::vector<StopGang>> stops =
        PlanPreemptionWithinQuota(round.snapshot, round.index, {candidate.job, demand, partition},
                                  over, round.settings.elastic, round.LedgerNow());
    if (!stops.has_value()) continue;
    if (AwaitsLooksOnceGone(round, candidate, partition, *stops)) return false;
    Stop(round, *std::move(stops), partition);
    TakeReservation(
        round, candidate, partition,
        Reserve(round.index, partition, demand, round.context.wall, ReleasesOf(round, partition)));
    return true;
  }
  return false;
}

std::string PreemptedFor(const Round& round, uint64_t job_id) {
  std::vector<uint64_t> jobs;
  for (const StopGang& stop : round.decision.plan.stop) {
    if (stop.for_job == job_id) jobs.push_back(stop.job_id);
  }
  if (jobs.empty()) return "";
  return absl::StrCat("; makes way for it: job ", absl::StrJoin(jobs, ", job "));
}

}  // namespace muster::controller
