// How many workers jobs lack. Pure.
//
// The scheduler itself is asked, in a copy of the world in which workers that could come are there:
// so quotas, order, arrays, pools and their waits, labels and the whole gang count as they do when
// the workers have come. An elastic gang counts with its fewest ranks: it waits for no more, and
// grows into what happens to be idle. A worker to come is assumed to see the checkpoint roots and
// data that the pool's newest worker sees; if the pool is empty, all of them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/policy/autoscale/scale_types.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

struct PoolDemand {
  uint32_t shortage = 0;              // workers to come that would get ranks
  std::vector<uint64_t> jobs;         // whose; ascending
  std::set<std::string> wanted_back;  // that the autoscaler drains and that would get ranks
};

// How many workers may come to a pool besides those that are there.
struct PoolRoom {
  const PoolScaling* scaling = nullptr;
  uint32_t more = 0;
  // What one that came was seen to have; null: none came yet, and what is set counts.
  const WorkerFacts* seen = nullptr;
};

// By pool; one without demand is left out. Costs up to three rounds of a scheduler without memory:
// for a thread of its own.
std::map<std::string, PoolDemand> FindDemand(const Snapshot& snapshot,
                                             const std::vector<PoolRoom>& rooms,
                                             ScheduleContext context);

// Whether workers that may come to one of its pools could hold the whole job, when nobody is there.
bool CouldHold(const PoolScaling& scaling, const JobNeeds& needs);

// Whether the autoscaler drains it.
bool LeavesByScaling(const Worker& worker);

}  // namespace muster::controller
