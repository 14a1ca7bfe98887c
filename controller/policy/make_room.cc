#include "controller/policy/make_room.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/policy/capacity.h"
#include "controller/policy/preemption.h"

namespace muster::controller {
namespace {

// What the head could use, and who is in its way.
struct Scene {
  std::vector<Room> rooms;  // free, or coming free already
  std::vector<Preemptee> holders;
  std::vector<const Job*> jobs;  // of the holders
  std::set<uint64_t> leaving;    // jobs that are being ended
};

void Add(Room& room, const Room& more) {
  room.slots += more.slots;
  room.cpus += more.cpus;
  room.memory_bytes += more.memory_bytes;
}

class SceneBuilder {
 public:
  SceneBuilder(const Snapshot& snapshot, const WorkerIndex& index, const HeadOfLine& head)
      : snapshot_(snapshot), index_(index), head_(head) {}

  Scene Build() {
    index_.line(head_.line).workers.FindIf(head_.shape.Eligible(index_), [this](uint64_t id) {
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
    const std::vector<uint32_t>& free = node.kinds[WorkerIndex::At(head_.shape.kind())].free;
    std::map<uint64_t, Room> held;  // by job
    for (const Slot& slot : worker.facts.slots) {
      if (!SlotMatches(slot, head_.shape.needs())) continue;
      const auto holder = worker.holders.find(slot.index);
      if (holder == worker.holders.end()) {
        room.slots += std::binary_search(free.rbegin(), free.rend(), slot.index);
        continue;
      }
      Room& part = held[holder->second.job_id];
      // A slot of a dead attempt comes free when its process is known to be dead: nobody knows
      // when.
      if (!IsCurrent(holder->second)) continue;
      Add(part, {.slots = 1,
                 .cpus = holder->second.cpus,
                 .memory_bytes = static_cast<int64_t>(holder->second.memory_bytes)});
    }
    for (const auto& [job_id, part] : held) {
      if (part.slots == 0) continue;
      const Job& job = *snapshot_.FindJob(job_id);
      if (job.state == JobState::kRecovering || job.state == JobState::kStopping) {
        Add(room, part);
        scene_.leaving.insert(job_id);
      } else if (!job.current->save_requested && !HasMadeWayFor(job, head_.job)) {
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
  const HeadOfLine& head_;
  Scene scene_;
  std::map<uint64_t, Preemptee> holders_;
};

uint32_t RanksIn(const std::vector<Room>& rooms, const RankSize& rank) {
  uint32_t ranks = 0;
  for (const Room& room : rooms) ranks += RanksIn(room, rank);
  return ranks;
}

// What the gang no longer needs when it goes on with the fewest ranks, fullest workers first;
// `sign` gives or takes it back.
void Release(std::vector<Room>& rooms, const Job& job, const Preemptee& holder, int sign) {
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
    Add(rooms[part->room], {.slots = sign * gone * needs.slots_per_rank,
                            .cpus = sign * gone * part->what.cpus / here,
                            .memory_bytes = sign * gone * part->what.memory_bytes / here});
  }
}

// The cheapest first.
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

struct Choice {
  std::vector<size_t> shrink;
  std::vector<size_t> preempt;
};

// Takes back each that is not needed, the dearest first.
void DropSuperfluous(std::vector<Room>& rooms, const Scene& scene, const RankSize& rank,
                     uint32_t ranks, std::vector<size_t>& shrink) {
  for (size_t at = shrink.size(); at-- > 0;) {
    const size_t i = shrink[at];
    Release(rooms, *scene.jobs[i], scene.holders[i], -1);
    if (RanksIn(rooms, rank) >= ranks) {
      shrink.erase(shrink.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      Release(rooms, *scene.jobs[i], scene.holders[i], +1);
    }
  }
}

// Positions in the scene of those who may be preempted, without the ones that shrink.
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

Choice Choose(const Snapshot& snapshot, const Scene& scene, const HeadOfLine& head,
              const ElasticSettings& settings, absl::Time now) {
  const JobNeeds& needs = head.shape.needs();
  const RankSize rank{.slots = needs.slots_per_rank,
                      .cpus = needs.cpus_per_rank,
                      .memory_bytes = needs.memory_per_rank};
  const int32_t priority = head.job.settings->priority;
  std::vector<Room> rooms = scene.rooms;
  if (RanksIn(rooms, rank) >= needs.min_ranks) return {};  // what is being ended is enough
  Choice choice;
  for (size_t i : WhoMayShrink(snapshot, scene, priority, settings, now)) {
    if (RanksIn(rooms, rank) >= needs.min_ranks) break;
    Release(rooms, *scene.jobs[i], scene.holders[i], +1);
    choice.shrink.push_back(i);
  }
  if (RanksIn(rooms, rank) < needs.min_ranks) {
    choice.preempt =
        Victims(rooms, scene, WhoMayGo(scene, priority, choice.shrink), rank, needs.min_ranks);
    if (choice.preempt.empty()) {
      return {.shrink = {},
              .preempt = Victims(scene.rooms, scene, WhoMayGo(scene, priority, {}), rank,
                                 needs.min_ranks)};
    }
    for (size_t i : choice.preempt) {
      for (const Preemptee::Held& held : scene.holders[i].held) Add(rooms[held.room], held.what);
    }
  }
  DropSuperfluous(rooms, scene, rank, needs.min_ranks, choice.shrink);
  return choice;
}

StopGang Stop(const Scene& scene, size_t i, StopGang::Why why, const Job& head) {
  const Job& job = *scene.jobs[i];
  StopGang stop{.job_id = job.id,
                .attempt = job.current->number,
                .why = why,
                .for_job = head.id,
                .reason = {}};
  const std::string unsaved =
      absl::StrCat("; it saves first, ", scene.holders[i].cost, " slot-seconds are unsaved");
  stop.reason =
      why == StopGang::Why::kShrink
          ? absl::StrCat("shrinks from ", job.current->ranks.size(), " ranks (",
                         job.settings->needs.min_ranks, " would do) to make room for job ", head.id,
                         unsaved)
          : absl::StrCat("makes way for job ", head.id, " (priority ", head.settings->priority,
                         " over ", job.settings->priority, ")", unsaved);
  return stop;
}

// What has to come free for the head's quotas, and what does when jobs leave.
class QuotaGap {
 public:
  QuotaGap(const SlotsOver& over, const Job& head)
      : project_(over.project), user_(over.user), head_(head) {}

  bool IsOwn(const Job& job) const { return job.settings->project == head_.settings->project; }
  // `slots` of the job come free; negative: do not after all.
  void Free(const Job& job, int64_t slots) {
    if (!IsOwn(job)) return;
    project_ -= slots;
    if (job.owner == head_.owner) user_ -= slots;
  }
  bool IsClosed() const { return project_ <= 0 && user_ <= 0; }
  // Whether the job's leaving brings it closer.
  bool Needs(const Job& job) const {
    return IsOwn(job) && (project_ > 0 || (user_ > 0 && job.owner == head_.owner));
  }
  bool NeedsUser() const { return user_ > 0; }
  bool OfUser(const Job& job) const { return job.owner == head_.owner; }

 private:
  int64_t project_;
  int64_t user_;
  const Job& head_;
};

int64_t SlotsHeld(const Job& job) { return UseOf(job).slots; }

int64_t SpareSlots(const Job& job) {
  const JobNeeds& needs = job.settings->needs;
  return (static_cast<int64_t>(job.current->ranks.size()) - needs.min_ranks) * needs.slots_per_rank;
}

// The whole of it: rooms and quotas, as jobs leave them or come back.
struct Ledger {
  const Scene& scene;
  std::vector<Room> rooms;
  QuotaGap gap;

  void Shrink(size_t i, int sign) {
    Release(rooms, *scene.jobs[i], scene.holders[i], sign);
    gap.Free(*scene.jobs[i], sign * SpareSlots(*scene.jobs[i]));
  }
  void Leave(size_t i, int sign) {
    for (const Preemptee::Held& held : scene.holders[i].held) {
      Add(rooms[held.room], {.slots = sign * held.what.slots,
                             .cpus = sign * held.what.cpus,
                             .memory_bytes = sign * held.what.memory_bytes});
    }
    gap.Free(*scene.jobs[i], sign * SlotsHeld(*scene.jobs[i]));
  }
};

// Victims that close the gap: those who hold the user's slots first, since they count twice; each
// time the least work lost for a slot that is needed.
void CloseGap(Ledger& ledger, const std::vector<size_t>& who, std::vector<size_t>& victims) {
  while (!ledger.gap.IsClosed()) {
    size_t best = ledger.scene.jobs.size();
    double best_cost = 0;
    for (size_t i : who) {
      const Job& job = *ledger.scene.jobs[i];
      const bool taken = std::find(victims.begin(), victims.end(), i) != victims.end();
      if (taken || !ledger.gap.Needs(job)) continue;
      if (ledger.gap.NeedsUser() && !ledger.gap.OfUser(job)) continue;
      const double cost = static_cast<double>(ledger.scene.holders[i].cost + 1) /
                          static_cast<double>(std::max<int64_t>(SlotsHeld(job), 1));
      if (best == ledger.scene.jobs.size() || cost < best_cost) {
        best = i;
        best_cost = cost;
      }
    }
    if (best == ledger.scene.jobs.size()) return;
    victims.push_back(best);
    ledger.Leave(best, +1);
  }
}

}  // namespace

std::optional<std::vector<StopGang>> MakeRoomWithinQuota(
    const Snapshot& snapshot, const WorkerIndex& index, const HeadOfLine& head,
    const SlotsOver& over, const ElasticSettings& settings, absl::Time now) {
  Scene scene = SceneBuilder(snapshot, index, head).Build();
  for (size_t i = 0; i < scene.jobs.size(); ++i) {
    scene.holders[i].cost = SlotSecondsAtStake(snapshot, *scene.jobs[i], now);
  }
  const JobNeeds& needs = head.shape.needs();
  const RankSize rank{.slots = needs.slots_per_rank,
                      .cpus = needs.cpus_per_rank,
                      .memory_bytes = needs.memory_per_rank};
  const int32_t priority = head.job.settings->priority;
  Ledger ledger{.scene = scene, .rooms = scene.rooms, .gap = QuotaGap(over, head.job)};
  for (uint64_t id : scene.leaving) {
    const Job& job = *snapshot.FindJob(id);
    ledger.gap.Free(job, SlotsHeld(job));
  }
  const auto enough = [&] {
    return ledger.gap.IsClosed() && RanksIn(ledger.rooms, rank) >= needs.min_ranks;
  };
  Choice choice;
  for (size_t i : WhoMayShrink(snapshot, scene, priority, settings, now)) {
    if (enough()) break;
    if (!ledger.gap.Needs(*scene.jobs[i])) continue;
    ledger.Shrink(i, +1);
    choice.shrink.push_back(i);
  }
  const std::vector<size_t> who = WhoMayGo(scene, priority, choice.shrink);
  CloseGap(ledger, who, choice.preempt);
  if (!ledger.gap.IsClosed()) return std::nullopt;
  if (!enough()) {
    std::vector<size_t> others;
    for (size_t i : who) {
      const auto taken = std::find(choice.preempt.begin(), choice.preempt.end(), i);
      if (taken == choice.preempt.end()) others.push_back(i);
    }
    for (size_t i : Victims(ledger.rooms, scene, others, rank, needs.min_ranks)) {
      choice.preempt.push_back(i);
      ledger.Leave(i, +1);
    }
    if (!enough()) return std::nullopt;
  }
  // Who turned out superfluous stays.
  std::erase_if(choice.preempt, [&](size_t i) {
    ledger.Leave(i, -1);
    if (enough()) return true;
    ledger.Leave(i, +1);
    return false;
  });
  std::erase_if(choice.shrink, [&](size_t i) {
    ledger.Shrink(i, -1);
    if (enough()) return true;
    ledger.Shrink(i, +1);
    return false;
  });
  std::vector<StopGang> stops;
  for (size_t i : choice.shrink) stops.push_back(Stop(scene, i, StopGang::Why::kShrink, head.job));
  for (size_t i : choice.preempt) {
    stops.push_back(Stop(scene, i, StopGang::Why::kPreempt, head.job));
  }
  return stops;
}

std::vector<StopGang> MakeRoom(const Snapshot& snapshot, const WorkerIndex& index,
                               const HeadOfLine& head, const ElasticSettings& settings,
                               absl::Time now) {
  Scene scene = SceneBuilder(snapshot, index, head).Build();
  for (size_t i = 0; i < scene.jobs.size(); ++i) {
    scene.holders[i].cost = SlotSecondsAtStake(snapshot, *scene.jobs[i], now);
  }
  const Choice choice = Choose(snapshot, scene, head, settings, now);
  std::vector<StopGang> stops;
  for (size_t i : choice.shrink) stops.push_back(Stop(scene, i, StopGang::Why::kShrink, head.job));
  for (size_t i : choice.preempt) {
    stops.push_back(Stop(scene, i, StopGang::Why::kPreempt, head.job));
  }
  return stops;
}

}  // namespace muster::controller
