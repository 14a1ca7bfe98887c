// Where a waiting job stands in the queue, in one decision of the scheduler. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/policy/queue/schedule_context.h"
#include "controller/policy/scheduler.h"

namespace muster::controller {

struct QueuePosition {
  // The jobs that are considered before it, in order, without those that what runs now holds back
  // by a quota or an array: they take nothing that another job could have.
  std::vector<uint64_t> before;
  ProjectUse use;             // of its project when its turn comes
  ProjectUse with_reserved;   // that, and what its project's quotas keep for jobs before it
  uint64_t reserved_for = 0;  // the first of these; 0: none
  uint32_t of_array = 0;      // of its array that hold slots by then
  uint64_t over_quota = 0;    // a job before it that is over quota and so holds it up; 0: none
};

// Requires that the queue holds the job (policy/queue/admission) and that `decision` is of this
// snapshot and context.
QueuePosition FindPosition(const Snapshot& snapshot, uint64_t job_id, const Decision& decision,
                           const ScheduleContext& context);

}  // namespace muster::controller
