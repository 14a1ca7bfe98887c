// Which slots there are for a job, and where its gang goes: pure arithmetic over a snapshot. Used
// by the scheduler, the submit rules and dry runs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/plan.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// Slots by worker name that the plan in the making has given away already.
using TakenSlots = std::map<std::string, std::set<uint32_t>>;

// What the snapshot offers to one job. Slots of other pools, kinds and labels are not counted.
struct Capacity {
  struct Free {
    std::string worker;
    std::vector<uint32_t> slots;  // ascending
  };
  std::vector<Free> free;      // workers with free slots: most first, then by name
  uint32_t free_slots = 0;     // on workers that take work now
  uint32_t usable_slots = 0;   // free or held, on workers that are not lost or draining
  uint32_t known_slots = 0;    // on every worker that was ever seen, lost ones included
  uint32_t ready_workers = 0;  // that take work now
  uint32_t pool_workers = 0;   // known in the pool, whatever their labels
};

Capacity CountCapacity(const Snapshot& snapshot, const JobNeeds& needs, const TakenSlots& taken);

// True when the worker may get a new rank of such a job.
bool TakesWork(const Worker& worker, const JobNeeds& needs);

// As many ranks as fit between min and max, on the fewest workers; empty when fewer than min fit.
std::vector<RankPlacement> PlaceRanks(const Capacity& capacity, const JobNeeds& needs);

// OK, or FAILED_PRECONDITION "refused: ..." when the workers known today could never hold the job.
// Before the first worker of all has come nothing is refused, and neither is wait_for_capacity.
absl::Status CanEverFit(const Snapshot& snapshot, const JobNeeds& needs);

// One line for a dry run: where the job would start now, or why it would wait. Errors: those of
// CanEverFit.
absl::StatusOr<std::string> Forecast(const Snapshot& snapshot, const JobNeeds& needs);

// "2 GPU slots in pool default (labels: zone=a)"
std::string DescribeNeeds(const JobNeeds& needs);

// "0 of 4 free on 2 ready workers"
std::string DescribeAvailable(const Capacity& capacity);

}  // namespace muster::controller
