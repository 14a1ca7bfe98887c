// The part of a look that stops running gangs: to make room for the head of a partition, or to let
// an elastic one go on with more ranks.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/planted_bug.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/placement/elastic.h"
#include "controller/policy/placement/make_room.h"
#include "controller/policy/placement/placement.h"
#include "controller/policy/scheduling_round.h"

namespace muster::controller {

// Where enough comes free within this time anyway, nobody is stopped: saving takes as long.
constexpr absl::Duration kPatience = absl::Seconds(30);

Reservation SchedulingRound::MakeRoomFor(const Candidate& candidate, int partition,
                                         Reservation reservation) {
  const int32_t priority = candidate.job.settings->priority;
  const bool hopeless = !world_.running.AnyBelow(priority) && world_.running.elastic().empty();
  if (hopeless) return reservation;
  if (reservation.start <= world_.context.wall + kPatience) {
    // It may not have come free by then.
    LookAgainIn(reservation.start + absl::Seconds(1) - world_.context.wall);
    return reservation;
  }
  Demand& demand = *candidate.group.demand;
  GiveBack(world_.index, demand.kind(), reservation.kept.grants);
  std::vector<StopGang> stops =
      MakeRoom(world_.snapshot, world_.index, {candidate.job, demand, partition},
               world_.context.settings.elastic, LedgerNow());
  FreeBy(stops, partition);
  if (stops.empty()) AwaitShrinking(priority);
  std::move(stops.begin(), stops.end(), std::back_inserter(decision_.plan.stop));
  return Reserve(world_.index, partition, demand, world_.context.wall, releases_.at(partition));
}

// A job that its quotas hold back gets the slots of lower ones of its own project. Whether it did,
// or they are on their way.
bool SchedulingRound::DisplaceOwn(const Candidate& candidate, const SlotsOver& over) {
  const int32_t priority = candidate.job.settings->priority;
  if (!world_.running.AnyBelow(priority) && world_.running.elastic().empty()) return false;
  Demand& demand = *candidate.group.demand;
  for (int partition : PartitionsOf(candidate.job)) {
    if (demand.RanksWhenIdle(world_.index, partition) < demand.needs().min_ranks) continue;
    if (partitions_[partition].reserved_for != 0) return false;
    std::optional<std::vector<StopGang>> stops =
        MakeRoomWithinQuota(world_.snapshot, world_.index, {candidate.job, demand, partition}, over,
                            world_.context.settings.elastic, LedgerNow());
    if (!stops.has_value()) continue;
    ReleasesOf(partition);
    FreeBy(*stops, partition);
    std::move(stops->begin(), stops->end(), std::back_inserter(decision_.plan.stop));
    TakeReservation(
        candidate, partition,
        Reserve(world_.index, partition, demand, world_.context.wall, releases_.at(partition)));
    return true;
  }
  return false;
}

// The slots of those who are told to leave come free at once, as far as anybody can tell.
void SchedulingRound::FreeBy(const std::vector<StopGang>& stops, int partition) {
  std::vector<Release>& releases = releases_.at(partition);
  for (const StopGang& stop : stops) {
    std::erase_if(releases, [&](const Release& r) { return r.job_id == stop.job_id; });
    Collect(*world_.snapshot.FindJob(stop.job_id), world_.context.wall, partition, releases);
  }
  std::stable_sort(releases.begin(), releases.end(),
                   [](const Release& a, const Release& b) { return a.at < b.at; });
}

void SchedulingRound::LookAgainIn(absl::Duration wait) {
  if (wait > absl::ZeroDuration()) {
    decision_.due_at = std::min(decision_.due_at, world_.context.now + wait);
  }
}

// An elastic gang of the same priority makes room when it has run for long enough.
void SchedulingRound::AwaitShrinking(int32_t priority) {
  for (uint64_t id : world_.running.elastic()) {
    const Job& job = *world_.snapshot.FindJob(id);
    if (job.settings->priority != priority || !MayShrink(job)) continue;
    const absl::Duration age = LedgerNow() - HeldFrom(*job.current);
    LookAgainIn(world_.context.settings.elastic.shrink_after - age);
  }
}

// The jobs that were told to make way for this one in this look; empty: none.
std::string SchedulingRound::WhoMakesWayFor(uint64_t job_id) const {
  std::vector<uint64_t> jobs;
  for (const StopGang& stop : decision_.plan.stop) {
    if (stop.for_job == job_id) jobs.push_back(stop.job_id);
  }
  return jobs.empty() ? ""
                      : absl::StrCat("; makes way for it: job ", absl::StrJoin(jobs, ", job "));
}

// Slots that are free when all that wait were considered, and that nobody waits for.
void SchedulingRound::GrowElastic() {
  std::set<int> done;  // one gang a partition and look: the next one sees what that one took
  for (uint64_t id : world_.running.elastic()) {
    const Job& job = *world_.snapshot.FindJob(id);
    if (!MayGrow(job)) continue;
    std::vector<int> partitions = PartitionsOf(job);
    const auto may_use = [&](int partition) {
      return done.count(partition) == 0 && IsIdle(partition, job);
    };
    if (std::none_of(partitions.begin(), partitions.end(), may_use)) continue;
    const ElasticSettings& settings = world_.context.settings.elastic;
    const absl::Duration age = LedgerNow() - HeldFrom(*job.current);
    if (age < settings.grow_after) {
      LookAgainIn(settings.grow_after - age);
      continue;
    }
    const Regrowth next = IfStopped(job, partitions);
    if (next.partition < 0 || !may_use(next.partition)) continue;
    if (!IsWorthGrowing(world_.snapshot, job, next.ranks, settings, LedgerNow())) continue;
    done.insert(next.partition);
    decision_.plan.stop.push_back(
        {.job_id = id,
         .attempt = job.current->number,
         .why = StopGang::Why::kGrow,
         .reason =
             absl::StrCat("goes on with ", next.ranks, " ranks instead of ",
                          job.current->ranks.size(), ": slots are free that nobody waits for")});
  }
}

// Whether a rank of the job could be put there and nobody waits for the slots.
bool SchedulingRound::IsIdle(int partition, const Job& job) const {
  return partitions_[partition].reserved_for == 0 && partitions_[partition].kept.empty() &&
         world_.index.partition(partition).free_slots >= job.settings->needs.slots_per_rank;
}

// As Consider would place it if it gave its slots back now.
SchedulingRound::Regrowth SchedulingRound::IfStopped(const Job& job,
                                                     const std::vector<int>& partitions) {
  Demand demand(job.settings->needs);
  std::vector<Release> own;
  const Worker* worker = world_.snapshot.FindWorker(job.current->ranks.front().worker);
  const int held =
      worker == nullptr ? -1 : world_.index.FindPartition(worker->facts.pool, demand.kind());
  if (held >= 0) Collect(job, world_.context.wall, held, own);
  for (const Release& release : own) world_.index.Give(release.grant, demand.kind());
  Regrowth next;
  for (int partition : partitions) {
    const std::vector<Grant> grants =
        FitGang(world_.index, partition, demand, RanksWithinQuotas(job));
    if (grants.empty()) continue;
    uint32_t slots = 0;
    for (const Grant& grant : grants) slots += grant.slots.size();
    GiveBack(world_.index, demand.kind(), grants);
    next = {.partition = partition, .ranks = slots / demand.needs().slots_per_rank};
    break;
  }
  for (auto release = own.rbegin(); release != own.rend(); ++release) {
    world_.index.Take(release->grant, demand.kind());
  }
  return next;
}

uint32_t SchedulingRound::RanksWithinQuotas(const Job& job) {
  const JobNeeds& needs = job.settings->needs;
  const std::string& name = job.settings->project;
  const Project* project = world_.snapshot.FindProject(name);
  if (project == nullptr) return needs.max_ranks;
  const ProjectUse& use = QuotasOf(name).use();
  const uint32_t own = UseOf(job).slots;
  uint32_t ranks = needs.max_ranks;
  const auto cap = [&](const Quota& quota, const Use& taken) {
    if (!quota.slots.has_value()) return;
    const uint32_t others = taken.slots - std::min(taken.slots, own);
    const uint32_t room = *quota.slots - std::min(*quota.slots, others);
    ranks = std::min(ranks, room / needs.slots_per_rank);
  };
  cap(project->quota, use.all);
  const bool forgotten = Planted(PlantedBug::kGrowPastUser);
  if (!forgotten) cap(project->QuotaOf(job.owner), use.Of(job.owner));
  return ranks;
}

}  // namespace muster::controller
