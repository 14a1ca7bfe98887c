#include "controller/policy/placement/make_room.h"

#include <utility>

#include "controller/policy/placement/room_scene.h"

namespace muster::controller {
namespace {

// Takes back each that is not needed, the dearest first.
void DropSuperfluous(std::vector<Room>& rooms, const Scene& scene, const RankSize& rank,
                     uint32_t ranks, std::vector<size_t>& shrink) {
  for (size_t at = shrink.size(); at-- > 0;) {
    const size_t i = shrink[at];
    ReleaseSpare(rooms, *scene.jobs[i], scene.holders[i], -1);
    if (RanksIn(rooms, rank) >= ranks) {
      shrink.erase(shrink.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      ReleaseSpare(rooms, *scene.jobs[i], scene.holders[i], +1);
    }
  }
}

Choice Choose(const Snapshot& snapshot, const Scene& scene, const Preemptor& preemptor,
              const ElasticSettings& settings, absl::Time now) {
  const JobNeeds& needs = preemptor.demand.needs();
  const RankSize rank = RankSizeOf(needs);
  const int32_t priority = preemptor.job.settings->priority;
  std::vector<Room> rooms = scene.rooms;
  if (RanksIn(rooms, rank) >= needs.min_ranks) return {};  // what is being ended is enough
  Choice choice;
  for (size_t i : WhoMayShrink(snapshot, scene, priority, settings, now)) {
    if (RanksIn(rooms, rank) >= needs.min_ranks) break;
    ReleaseSpare(rooms, *scene.jobs[i], scene.holders[i], +1);
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
      for (const Preemptee::Held& held : scene.holders[i].held)
        AddRoom(rooms[held.room], held.what);
    }
  }
  DropSuperfluous(rooms, scene, rank, needs.min_ranks, choice.shrink);
  return choice;
}

}  // namespace

std::vector<StopGang> MakeRoom(const Snapshot& snapshot, const WorkerIndex& index,
                               const Preemptor& preemptor, const ElasticSettings& settings,
                               absl::Time now) {
  const Scene scene = BuildScene(snapshot, index, preemptor, now);
  return StopsFor(scene, Choose(snapshot, scene, preemptor, settings, now), preemptor.job);
}

}  // namespace muster::controller
