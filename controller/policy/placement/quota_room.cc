// Room for a job that its quotas hold back: MakeRoomWithinQuota.
#include <algorithm>
#include <optional>
#include <utility>

#include "controller/policy/placement/make_room.h"
#include "controller/policy/placement/room_scene.h"

namespace muster::controller {
namespace {

// What has to come free for the job's quotas, and what does when jobs leave.
class QuotaGap {
 public:
  QuotaGap(const SlotsOver& over, const Job& preemptor)
      : project_(over.project), user_(over.user), preemptor_(preemptor) {}

  bool IsOwn(const Job& job) const { return job.settings->project == preemptor_.settings->project; }
  // `slots` of the job come free; negative: do not after all.
  void Free(const Job& job, int64_t slots) {
    if (!IsOwn(job)) return;
    project_ -= slots;
    if (job.owner == preemptor_.owner) user_ -= slots;
  }
  bool IsClosed() const { return project_ <= 0 && user_ <= 0; }
  // Whether the job's leaving brings it closer.
  bool Needs(const Job& job) const {
    return IsOwn(job) && (project_ > 0 || (user_ > 0 && job.owner == preemptor_.owner));
  }
  bool NeedsUser() const { return user_ > 0; }
  bool OfUser(const Job& job) const { return job.owner == preemptor_.owner; }

 private:
  int64_t project_;
  int64_t user_;
  const Job& preemptor_;
};

int64_t SlotsHeld(const Job& job) { return UseOf(job).slots; }

int64_t SpareSlots(const Job& job) {
  const JobNeeds& needs = job.settings->needs;
  return (static_cast<int64_t>(job.current->ranks.size()) - needs.min_ranks) * needs.slots_per_rank;
}

// The whole of it: rooms and quotas, as jobs leave them or come back.
struct Balance {
  const Scene& scene;
  std::vector<Room> rooms;
  QuotaGap gap;

  void Shrink(size_t i, int sign) {
    ReleaseSpare(rooms, *scene.jobs[i], scene.holders[i], sign);
    gap.Free(*scene.jobs[i], sign * SpareSlots(*scene.jobs[i]));
  }
  void Leave(size_t i, int sign) {
    for (const Preemptee::Held& held : scene.holders[i].held) {
      AddRoom(rooms[held.room], {.slots = sign * held.what.slots,
                                 .cpus = sign * held.what.cpus,
                                 .memory_bytes = sign * held.what.memory_bytes});
    }
    gap.Free(*scene.jobs[i], sign * SlotsHeld(*scene.jobs[i]));
  }
};

// Victims that close the gap: those who hold the user's slots first, since they count twice; each
// time the least work lost for a slot that is needed.
void CloseGap(Balance& balance, const std::vector<size_t>& who, std::vector<size_t>& victims) {
  while (!balance.gap.IsClosed()) {
    size_t best = balance.scene.jobs.size();
    double best_cost = 0;
    for (size_t i : who) {
      const Job& job = *balance.scene.jobs[i];
      const bool taken = std::find(victims.begin(), victims.end(), i) != victims.end();
      if (taken || !balance.gap.Needs(job)) continue;
      if (balance.gap.NeedsUser() && !balance.gap.OfUser(job)) continue;
      const double cost = static_cast<double>(balance.scene.holders[i].cost + 1) /
                          static_cast<double>(std::max<int64_t>(SlotsHeld(job), 1));
      if (best == balance.scene.jobs.size() || cost < best_cost) {
        best = i;
        best_cost = cost;
      }
    }
    if (best == balance.scene.jobs.size()) return;
    victims.push_back(best);
    balance.Leave(best, +1);
  }
}

// `shrink`: gangs may shrink; otherwise they may only go.
std::optional<Choice> Choose(const Scene& scene, const Preemptor& preemptor, const QuotaGap& gap,
                             const std::vector<size_t>& shrink) {
  const JobNeeds& needs = preemptor.demand.needs();
  const RankSize rank = RankSizeOf(needs);
  Balance balance{.scene = scene, .rooms = scene.rooms, .gap = gap};
  const auto enough = [&] {
    return balance.gap.IsClosed() && RanksIn(balance.rooms, rank) >= needs.min_ranks;
  };
  Choice choice;
  for (size_t i : shrink) {
    if (enough()) break;
    if (!balance.gap.Needs(*scene.jobs[i])) continue;
    balance.Shrink(i, +1);
    choice.shrink.push_back(i);
  }
  std::vector<size_t> who = WhoMayGo(scene, preemptor.job.settings->priority, choice.shrink);
  CloseGap(balance, who, choice.preempt);
  if (!balance.gap.IsClosed()) return std::nullopt;
  if (!enough()) {
    std::erase_if(who, [&](size_t i) {
      return std::find(choice.preempt.begin(), choice.preempt.end(), i) != choice.preempt.end();
    });
    for (size_t i : Victims(balance.rooms, scene, who, rank, needs.min_ranks)) {
      choice.preempt.push_back(i);
      balance.Leave(i, +1);
    }
    if (!enough()) return std::nullopt;
  }
  // Who turned out superfluous stays.
  std::erase_if(choice.preempt, [&](size_t i) {
    balance.Leave(i, -1);
    if (enough()) return true;
    balance.Leave(i, +1);
    return false;
  });
  std::erase_if(choice.shrink, [&](size_t i) {
    balance.Shrink(i, -1);
    if (enough()) return true;
    balance.Shrink(i, +1);
    return false;
  });
  return choice;
}

}  // namespace

std::optional<std::vector<StopGang>> MakeRoomWithinQuota(
    const Snapshot& snapshot, const WorkerIndex& index, const Preemptor& preemptor,
    const SlotsOver& over, const ElasticSettings& settings, absl::Time now) {
  const Scene scene = BuildScene(snapshot, index, preemptor, now);
  QuotaGap gap(over, preemptor.job);
  for (uint64_t id : scene.leaving) {
    const Job& job = *snapshot.FindJob(id);
    gap.Free(job, SlotsHeld(job));
  }
  std::optional<Choice> choice =
      Choose(scene, preemptor, gap,
             WhoMayShrink(snapshot, scene, preemptor.job.settings->priority, settings, now));
  if (!choice.has_value()) choice = Choose(scene, preemptor, gap, {});
  if (!choice.has_value()) return std::nullopt;
  return StopsFor(scene, *choice, preemptor.job);
}

}  // namespace muster::controller
