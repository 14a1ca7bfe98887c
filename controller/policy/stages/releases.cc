#include "controller/policy/stages/releases.h"

#include <algorithm>
#include <utility>

#include "controller/policy/health/eligibility.h"
#include "controller/policy/limits/run_time.h"

namespace muster::controller {
namespace {

void SortByTime(std::vector<Release>& releases) {
  std::stable_sort(releases.begin(), releases.end(),
                   [](const Release& a, const Release& b) { return a.at < b.at; });
}

}  // namespace

std::vector<Release>& ReleasesOf(Round& round, int partition) {
  const auto [it, is_new] = round.releases.try_emplace(partition);
  if (!is_new) return it->second;
  const Moment moment{.wall = round.context.wall, .now = round.context.now};
  const absl::Time now = round.LedgerNow();
  for (const auto& [end, id] : round.running.ends()) {
    if (it->second.size() >= round.settings.max_releases) break;
    const Job& job = *round.snapshot.FindJob(id);
    const absl::Time at =
        end > now ? moment.wall + (end - now) : ExpectedEnd(round.snapshot, job, moment);
    if (at != absl::InfiniteFuture()) CollectReleases(round, job, at, partition, it->second);
  }
  SortByTime(it->second);
  return it->second;
}

void CollectReleases(const Round& round, const Job& job, absl::Time at, int partition,
                     std::vector<Release>& releases) {
  const SlotKind kind = round.index.partition(partition).kind;
  for (const Rank& rank : job.current->ranks) {
    const Worker* worker = rank.holds_slots ? round.snapshot.FindWorker(rank.worker) : nullptr;
    if (worker == nullptr) continue;
    const WorkerIndex::Node& node = round.index.node(worker->id);
    if (!node.takes_work || node.kinds[WorkerIndex::At(kind)].partition != partition) continue;
    Grant grant{.worker_id = worker->id, .slots = {}, .cpus = 0, .memory_bytes = 0};
    for (uint32_t slot : rank.slots) {
      const auto holder = worker->pulse.holders.find(slot);
      if (holder == worker->pulse.holders.end() || holder->second.job_id != job.id) continue;
      if (!HasSlot(*worker, slot, kind)) continue;
      grant.slots.push_back(slot);
      grant.cpus += holder->second.cpus;
      grant.memory_bytes += holder->second.memory_bytes;
    }
    if (grant.slots.empty()) continue;
    releases.push_back({.at = at, .job_id = job.id, .grant = std::move(grant)});
  }
}

void ReleaseAtOnce(Round& round, const std::vector<StopGang>& stops, int partition) {
  std::vector<Release>& releases = ReleasesOf(round, partition);
  for (const StopGang& stop : stops) {
    std::erase_if(releases, [&](const Release& r) { return r.job_id == stop.job_id; });
    CollectReleases(round, *round.snapshot.FindJob(stop.job_id), round.context.wall, partition,
                    releases);
  }
  SortByTime(releases);
}

}  // namespace muster::controller
