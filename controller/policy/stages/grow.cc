#include "controller/policy/stages/grow.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/placement/elastic.h"
#include "controller/policy/placement/placement.h"
#include "controller/policy/stages/data_looks.h"
#include "controller/policy/stages/fit.h"
#include "controller/policy/stages/hold_back.h"
#include "controller/policy/stages/releases.h"

namespace muster::controller {
namespace {

// Where a gang would go, and with how many ranks; partition -1: nowhere.
struct Regrowth {
  int partition = -1;
  uint32_t ranks = 0;
  std::vector<Grant> grants = {};
};

// Whether a rank of the job could be put there and nobody waits for the slots.
bool IsIdle(const Round& round, int partition, const Job& job) {
  const PartitionState& state = round.partitions[partition];
  return state.reserved_for == 0 && state.reserved_slots.empty() &&
         round.index.partition(partition).free_slots >= job.settings->needs.slots_per_rank;
}

// What the job's gang holds.
std::vector<Release> OwnSlots(const Round& round, const Job& job, SlotKind kind) {
  std::vector<Release> own;
  const Worker* worker = round.snapshot.FindWorker(job.current->ranks.front().worker);
  const int held = worker == nullptr ? -1 : round.index.FindPartition(worker->facts.pool, kind);
  if (held >= 0) CollectReleases(round, job, round.context.wall, held, own);
  return own;
}

// As the other stages would place it if it gave its slots back now.
Regrowth PlaceIfStopped(Round& round, const Job& job, Demand& demand,
                        const std::vector<int>& partitions) {
  const std::vector<Release> own = OwnSlots(round, job, demand.kind());
  for (const Release& release : own) round.index.Give(release.grant, demand.kind());
  Regrowth next;
  for (int partition : partitions) {
    std::vector<Grant> grants =
        FitGang(round.index, partition, demand, RanksWithinQuotasIfStopped(round, job));
    if (grants.empty()) continue;
    GiveBack(round.index, demand.kind(), grants);
    next = {.partition = partition,
            .ranks = SlotsOf(grants) / demand.needs().slots_per_rank,
            .grants = std::move(grants)};
    break;
  }
  for (auto release = own.rbegin(); release != own.rend(); ++release) {
    round.index.Take(release->grant, demand.kind());
  }
  return next;
}

}  // namespace

void GrowElastic(Round& round) {
  const ElasticSettings& settings = round.settings.elastic;
  std::set<int> done;
  for (uint64_t id : round.running.elastic()) {
    const Job& job = *round.snapshot.FindJob(id);
    if (!MayGrow(job)) continue;
    const std::vector<int> partitions = round.PartitionsOf(job);
    const auto may_use = [&](int partition) {
      return done.count(partition) == 0 && IsIdle(round, partition, job);
    };
    if (std::none_of(partitions.begin(), partitions.end(), may_use)) continue;
    const absl::Duration age = round.LedgerNow() - HeldFrom(*job.current);
    if (age < settings.grow_after) {
      round.RunAgainIn(settings.grow_after - age);
      continue;
    }
    Demand demand(job.settings->needs);
    LookFurther(round, job, demand);
    const Regrowth next = PlaceIfStopped(round, job, demand, partitions);
    if (next.partition < 0 || !may_use(next.partition)) continue;
    if (!IsWorthGrowing(round.snapshot, job, next.ranks, settings, round.LedgerNow())) continue;
    if (AwaitsDataLooks(round, job, next.grants)) continue;
    done.insert(next.partition);
    const uint32_t more_ranks = next.ranks - static_cast<uint32_t>(job.current->ranks.size());
    round.QuotasOf(job.settings->project)
        .Take(job.owner, more_ranks * job.settings->needs.slots_per_rank);
    round.decision.plan.stop.push_back(
        {.job_id = id,
         .attempt = job.current->number,
         .why = StopGang::Why::kGrow,
         .reason =
             absl::StrCat("goes on with ", next.ranks, " ranks instead of ",
                          job.current->ranks.size(), ": slots are free that nobody waits for")});
  }
}

}  // namespace muster::controller
