// The workers before a job that preempts, and who is in its way there: what both searches for
// room (make_room, quota_room) start from. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "controller/policy/placement/make_room.h"
#include "controller/policy/placement/preemption.h"

namespace muster::controller {

// What the job could use, and who is in its way.
struct Scene {
  std::vector<Room> rooms;         // free, or coming free already
  std::vector<Preemptee> holders;  // with what their leaving would cost
  std::vector<const Job*> jobs;    // of the holders
  std::set<uint64_t> leaving;      // jobs that are being ended
};
Scene BuildScene(const Snapshot& snapshot, const WorkerIndex& index, const Preemptor& preemptor,
                 absl::Time now);

// Positions in the scene.
struct Choice {
  std::vector<size_t> shrink;
  std::vector<size_t> preempt;
};
std::vector<StopGang> StopsFor(const Scene& scene, const Choice& choice, const Job& preemptor);

RankSize RankSizeOf(const JobNeeds& needs);
uint32_t RanksIn(const std::vector<Room>& rooms, const RankSize& rank);
void AddRoom(Room& room, const Room& more);

// What the gang no longer needs when it goes on with the fewest ranks, fullest workers first;
// `sign` gives or takes it back.
void ReleaseSpare(std::vector<Room>& rooms, const Job& job, const Preemptee& holder, int sign);

// Who may shrink for a job of this priority, the cheapest first.
std::vector<size_t> WhoMayShrink(const Snapshot& snapshot, const Scene& scene, int32_t priority,
                                 const ElasticSettings& settings, absl::Time now);
// Who may be preempted for one, without those that shrink.
std::vector<size_t> WhoMayGo(const Scene& scene, int32_t priority,
                             const std::vector<size_t>& shrink);
// The cheapest of them that make room for so many ranks; empty: none do.
std::vector<size_t> Victims(const std::vector<Room>& rooms, const Scene& scene,
                            const std::vector<size_t>& who, const RankSize& rank, uint32_t ranks);

}  // namespace muster::controller
