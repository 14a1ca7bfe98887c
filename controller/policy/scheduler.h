// Who starts next. Pure: snapshot and time in, plan out.
//
// Order: higher priority first; within a priority the project whose turn it is by fair share;
// within a project the earlier submit. A gang gets all its ranks or none, in one pool, within the
// quotas of its project and owner. The first job of a partition (pool and kind of slot) that does
// not fit gets its reservation: slots are kept for it, and later jobs may pass only if they do not
// delay it (policy/placement/backfill.h). A job that the usable workers could not hold even when
// idle gets no reservation. A job that recovers, or (within its quotas) one whose back-off is
// nearly over, gets a reservation or has free slots kept; one with a longer back-off does not yet.
//
// One file a policy: admission, queue_order (with fair_share), quota, placement, backfill,
// run_time; one file a stage of a round (policy/stages). What follows from the snapshot alone is
// kept between rounds and brought up to date with the rows that changed (worker_index, job_queue,
// running_jobs); a Scheduler that has followed a history decides as a fresh one does, so Schedule
// is the same function without the memory. Only a queue too long for one round (max_considered)
// takes several, each of which continues the one before.
#pragma once

#include <cstdint>

#include "controller/model/snapshot.h"
#include "controller/policy/placement/running_jobs.h"
#include "controller/policy/placement/worker_index.h"
#include "controller/policy/queue/job_queue.h"
#include "controller/policy/queue/schedule_context.h"
#include "controller/policy/stages/decision.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

// One thread; follows one history of snapshots (any other makes it start anew, at a cost).
class Scheduler {
 public:
  Decision Decide(const Snapshot& snapshot, const ScheduleContext& context);

 private:
  void Follow(const Snapshot& snapshot, const ScheduleContext& context);

  // What was followed: the rows that the indexes were made of, kept alive.
  CowTable<Job> jobs_;
  CowTable<Worker> workers_;
  CowMap<LearnedRunTime> run_times_;
  WorkerIndex index_;
  JobQueue queue_;
  RunningJobs running_;
  Considered considered_;
  FurtherLooks further_looks_;
};

Decision Schedule(const Snapshot& snapshot, const ScheduleContext& context);

}  // namespace muster::controller
