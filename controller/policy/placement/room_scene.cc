#include "controller/policy/placement/room_scene.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/policy/health/capacity.h"

namespace muster::controller {
namespace {

class SceneBuilder {
 public:
  SceneBuilder(const Snapshot& snapshot, const WorkerIndex& index, const Preemptor& preemptor)
      : snapshot_(snapshot), index_(index), preemptor_(preemptor) {}

  Scene Build() {
    index_.partition(preemptor_.partition)
        .workers.FindIf(preemptor_.demand.Eligible(index_), [this](uint64_t id) {
          const WorkerIndex::Node& node = index_.node(id);
          if (node.takes_work) AddWorker(node);
          return false;
        });
    for (auto& [id, holder] : holders_) {
      scene_.jobs.push_back(snapshot_.FindJob(id));
      scene_.holders.push_back(std::move(holder));
    }
    return std::move(scene_);
  }

 private:
  void AddWorker(const WorkerIndex::Node& node) {
    const Worker& worker = *node.worker;
    const size_t at = scene_.rooms.size();
    Room room{.worker_id = worker.id,
              .cpus = node.free_cpus,
              .memory_bytes = static_cast<int64_t>(node.free_memory)};
    const std::vector<uint32_t>& free = node.kinds[WorkerIndex::At(preemptor_.demand.kind())].free;
    std::map<uint64_t, Room> held;  // by job
    for (const Slot& slot : worker.facts.slots) {
      if (!SlotMatches(slot, preemptor_.demand.needs())) continue;
      const auto holder = worker.holders.find(slot.index);
      if (holder == worker.holders.end()) {
        room.slots += std::binary_search(free.rbegin(), free.rend(), slot.index);
        continue;
      }
      Room& part = held[holder->second.job_id];
      // A slot of a dead attempt comes free when its process is known to be dead: nobody knows
      // when.
      if (!IsCurrent(holder->second)) continue;
      AddRoom(part, {.slots = 1,
                     .cpus = holder->second.cpus,
                     .memory_bytes = static_cast<int64_t>(holder->second.memory_bytes)});
    }
    for (const auto& [job_id, part] : held) {
      if (part.slots == 0) continue;
      const Job& job = *snapshot_.FindJob(job_id);
      if (job.state == JobState::kRecovering || job.state == JobState::kStopping) {
        AddRoom(room, part);
        scene_.leaving.insert(job_id);
      } else if (!job.current->save_requested && !HasMadeWayFor(job, preemptor_.job)) {
        Preemptee& holder = holders_[job_id];
        holder.job_id = job_id;
        holder.priority = job.settings->priority;
        holder.held.push_back({.room = at, .what = part});
      }
    }
    scene_.rooms.push_back(room);
  }

  bool IsCurrent(const SlotHolder& holder) const {
    const Job* job = snapshot_.FindJob(holder.job_id);
    return job != nullptr && job->has_live_attempt() && job->current->number == holder.attempt;
  }

  const Snapshot& snapshot_;
  const WorkerIndex& index_;
  const Preemptor& preemptor_;
  Scene scene_;
  std::map<uint64_t, Preemptee> holders_;
};

StopGang Stop(const Scene& scene, size_t i, StopGang::Why why, const Job& preemptor) {
  const Job& job = *scene.jobs[i];
  StopGang stop{.job_id = job.id,
                .attempt = job.current->number,
                .why = why,
                .for_job = preemptor.id,
                .reason = {}};
  const std::string unsaved =
      absl::StrCat("; it saves first, ", scene.holders[i].cost, " slot-seconds are unsaved");
  stop.reason = why == StopGang::Why::kShrink
                    ? absl::StrCat("shrinks from ", job.current->ranks.size(), " ranks (",
                                   job.settings->needs.min_ranks,
                                   " would do) to make room for job ", preemptor.id, unsaved)
                    : absl::StrCat("makes way for job ", preemptor.id, " (priority ",
                                   preemptor.settings->priority, " over ", job.settings->priority,
                                   ")", unsaved);
  return stop;
}

}  // namespace

Scene BuildScene(const Snapshot& snapshot, const WorkerIndex& index, const Preemptor& preemptor,
                 absl::Time now) {
  Scene scene = SceneBuilder(snapshot, index, preemptor).Build();
  for (size_t i = 0; i < scene.jobs.size(); ++i) {
    scene.holders[i].cost = SlotSecondsAtStake(snapshot, *scene.jobs[i], now);
  }
  return scene;
}

std::vector<StopGang> StopsFor(const Scene& scene, const Choice& choice, const Job& preemptor) {
  std::vector<StopGang> stops;
  for (size_t i : choice.shrink) stops.push_back(Stop(scene, i, StopGang::Why::kShrink, preemptor));
  for (size_t i : choice.preempt)
    stops.push_back(Stop(scene, i, StopGang::Why::kPreempt, preemptor));
  return stops;
}

RankSize RankSizeOf(const JobNeeds& needs) {
  return {.slots = needs.slots_per_rank,
          .cpus = needs.cpus_per_rank,
          .memory_bytes = needs.memory_per_rank};
}

void AddRoom(Room& room, const Room& more) {
  room.slots += more.slots;
  room.cpus += more.cpus;
  room.memory_bytes += more.memory_bytes;
}

uint32_t RanksIn(const std::vector<Room>& rooms, const RankSize& rank) {
  uint32_t ranks = 0;
  for (const Room& room : rooms) ranks += RanksIn(room, rank);
  return ranks;
}

void ReleaseSpare(std::vector<Room>& rooms, const Job& job, const Preemptee& holder, int sign) {
  const JobNeeds& needs = job.settings->needs;
  int64_t spare = static_cast<int64_t>(job.current->ranks.size()) - needs.min_ranks;
  std::vector<const Preemptee::Held*> held;
  for (const Preemptee::Held& part : holder.held) held.push_back(&part);
  std::stable_sort(held.begin(), held.end(),
                   [](const auto* a, const auto* b) { return a->what.slots > b->what.slots; });
  for (const Preemptee::Held* part : held) {
    const int64_t here = part->what.slots / needs.slots_per_rank;
    const int64_t gone = std::min(spare, here);
    if (gone <= 0) continue;
    spare -= gone;
    AddRoom(rooms[part->room], {.slots = sign * gone * needs.slots_per_rank,
                                .cpus = sign * gone * part->what.cpus / here,
                                .memory_bytes = sign * gone * part->what.memory_bytes / here});
  }
}

std::vector<size_t> WhoMayShrink(const Snapshot& snapshot, const Scene& scene, int32_t priority,
                                 const ElasticSettings& settings, absl::Time now) {
  std::vector<size_t> order;
  for (size_t i = 0; i < scene.jobs.size(); ++i) {
    const Job& job = *scene.jobs[i];
    if (MayShrink(job) && ShrinksFor(snapshot, job, priority, settings, now)) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Preemptee& x = scene.holders[a];
    const Preemptee& y = scene.holders[b];
    return std::make_tuple(x.priority, x.cost, ~x.job_id) <
           std::make_tuple(y.priority, y.cost, ~y.job_id);
  });
  return order;
}

std::vector<size_t> WhoMayGo(const Scene& scene, int32_t priority,
                             const std::vector<size_t>& shrink) {
  std::vector<size_t> who;
  for (size_t i = 0; i < scene.jobs.size(); ++i) {
    const Job& job = *scene.jobs[i];
    if (!job.settings->scheduling.preemptible || job.settings->priority >= priority) continue;
    if (std::find(shrink.begin(), shrink.end(), i) == shrink.end()) who.push_back(i);
  }
  return who;
}

std::vector<size_t> Victims(const std::vector<Room>& rooms, const Scene& scene,
                            const std::vector<size_t>& who, const RankSize& rank, uint32_t ranks) {
  std::vector<Preemptee> candidates;
  for (size_t i : who) candidates.push_back(scene.holders[i]);
  std::vector<size_t> victims;
  for (size_t at : ChooseVictims(rooms, candidates, rank, ranks)) victims.push_back(who[at]);
  return victims;
}

}  // namespace muster::controller
