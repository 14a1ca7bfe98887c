// What workers could give to a job: pure arithmetic over a snapshot. Used by the scheduler, the
// submit rules and explanations.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// Whether the worker may get new ranks at all, now.
bool TakesWork(const Worker& worker);
// Likewise, ranks of such a job: in one of its pools.
bool TakesWork(const Worker& worker, const JobNeeds& needs);
// Present or expected back soon: not lost, not leaving, not drained by a person.
bool IsUsable(const Worker& worker);

// Whether the worker's facts suit the job, whatever its pool and whoever is there now: labels,
// names that it excludes, models of GPU, whether it runs commands.
bool IsEligible(const Worker& worker, const JobNeeds& needs);
// It has what the job's image is run by, if the job has one.
bool RunsImage(const Worker& worker, const JobNeeds& needs);
bool SlotMatches(const Slot& slot, const JobNeeds& needs);
bool HasSlot(const Worker& worker, uint32_t index, SlotKind kind);
// How many ranks the worker could hold if it were idle, by slots, CPUs and memory. Zero when it
// does not suit.
uint32_t IdleRanks(const Worker& worker, const JobNeeds& needs);

// Whether the worker has CPUs and memory left for so many ranks; slots are not looked at.
bool HasCpusAndMemory(const Worker& worker, const JobNeeds& needs, uint32_t ranks);

// What the workers in the job's pools offer; those that do not suit are not counted.
struct Capacity {
  uint64_t free_slots = 0;     // on workers that take work now
  uint64_t usable_slots = 0;   // free or held, on usable workers
  uint32_t ready_workers = 0;  // that take work now
};
Capacity CountCapacity(const Snapshot& snapshot, const JobNeeds& needs);

// A worker that has been lost for longer is not counted as one that may return. This is not the
// flag --forget-lost-after.
inline constexpr absl::Duration kMayReturnWithin = absl::Hours(24);

bool IsLostForGood(const Worker& worker, absl::Duration now);

// OK, or FAILED_PRECONDITION "refused: ..." when the workers known today could never hold the job
// in one of its pools. Before the first worker of all has come nothing is refused, and neither is
// wait_for_capacity. `now` is the time since boot.
absl::Status CanEverFit(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now);

// " and 2 others", " and 1 other"; empty for none.
std::string AndOthers(uint64_t count);

// "2 ranks of 4 GPU slots in pool spot or ondemand (labels: zone=a)"
std::string DescribeNeeds(const JobNeeds& needs);

// "0 of 4 free on 2 ready workers"
std::string DescribeAvailable(const Capacity& capacity);

}  // namespace muster::controller
