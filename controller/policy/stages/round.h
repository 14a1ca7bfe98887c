// The state of one scheduling round, which its stages share: their input, what they have decided so
// far, and what they have taken from the worker index. The stages keep nothing else.
//
// The stages, in the order in which a job goes through them (policy/scheduling_round.cc): admit,
// hold_back (its array and its quotas), fit, backfill_reserved, reserve (which may preempt),
// wait_reason; and at the end of the round, once, grow.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/policy/limits/quota_walk.h"
#include "controller/policy/placement/backfill.h"
#include "controller/policy/placement/running_jobs.h"
#include "controller/policy/placement/worker_index.h"
#include "controller/policy/queue/job_queue.h"
#include "controller/policy/queue/schedule_context.h"
#include "controller/policy/stages/decision.h"

namespace muster::controller {

// A queue that is too long for one round takes several. Each begins at the front of the queue, and
// once half of its budget is used it skips the jobs that earlier rounds have considered: these. A
// round that reaches the end of the queue, or fills its plan, forgets them.
struct Considered {
  std::unordered_set<uint64_t> jobs;
  std::unordered_set<std::string> groups;  // by key: all jobs of theirs
  // Those among them that are considered again in each round, since slots or quotas are reserved
  // for them: what came later would take these otherwise. With the keys of their groups.
  std::unordered_map<uint64_t, std::string> holders;
};

// The jobs for which all workers were checked for data that are due again (stages/data_looks).
// Later rounds skip them until all jobs have had their turn.
struct FurtherLooks {
  std::unordered_set<uint64_t> done;
  absl::Duration due_at = absl::InfiniteDuration();  // since boot: when one of them is due again
};

// The input of a round. All of it outlives the round.
struct RoundInput {
  const Snapshot& snapshot;
  const ScheduleContext& context;
  WorkerIndex& index;  // slots are taken from it during the round, and given back at its end
  const JobQueue& queue;
  const RunningJobs& running;
  Considered& considered;  // by the rounds before this one
  FurtherLooks& further_looks;
};

struct PartitionState {
  uint64_t reserved_for = 0;  // the first job that does not fit; 0: none so far
  std::vector<ReservedSlots> reserved_slots;
};

// The job that is being considered.
struct Candidate {
  const Job& job;
  JobGroup& group;  // of jobs that are alike
  // It may not start yet, since it backs off or recovers: slots are only reserved for it.
  bool reserve_only = false;
  // Known once nothing holds it back (Locate).
  uint32_t max_ranks = 0;           // within its quotas
  std::vector<int> partitions;      // where it may go by now, in order of preference
  std::set<std::string> failed_on;  // where it failed; avoided if as large a gang fits elsewhere

  Demand& demand() const { return *group.demand; }
  const JobNeeds& needs() const { return group.demand->needs(); }
};

struct Round {
  explicit Round(const RoundInput& input)
      : snapshot(input.snapshot),
        context(input.context),
        settings(input.context.settings),
        index(input.index),
        queue(input.queue),
        running(input.running),
        further_looks(input.further_looks),
        partitions(input.index.partitions()) {}

  absl::Time LedgerNow() const { return snapshot.LedgerTime(context.now); }
  // Requests the next round within `wait`; ignored unless positive.
  void RunAgainIn(absl::Duration wait);
  // The bounds of a project, with what this round has placed.
  QuotaWalk& QuotasOf(const std::string& project);
  // Where the job may go by now, in its order of preference.
  std::vector<int> PartitionsOf(const Job& job) const;
  // Gives all that was taken back to the index.
  void GiveBackAll();

  const Snapshot& snapshot;
  const ScheduleContext& context;
  const ScheduleSettings& settings;
  WorkerIndex& index;
  const JobQueue& queue;
  const RunningJobs& running;
  FurtherLooks& further_looks;

  Decision decision;
  std::vector<PartitionState> partitions;             // by the index's partition number
  std::vector<std::pair<SlotKind, Grant>> taken;      // for gangs that were placed
  std::unordered_map<std::string, QuotaWalk> quotas;  // by project
  std::unordered_map<uint64_t, uint32_t> placed_of_array;
  std::unordered_map<uint64_t, uint32_t> reserved_of_array;  // tasks that slots are reserved for
  std::unordered_map<int, std::vector<Release>> releases;    // by partition
  // By group and partition, as it was when first asked.
  std::map<std::pair<const JobGroup*, int>, bool> could_backfill;
  uint32_t backfill_tries = 0;
  std::set<std::pair<uint64_t, std::string>> looks;  // in the plan: by worker and data
  uint32_t further_looks_now = 0;                    // jobs for which it would look further
  // Reasons given in this round, unchanged ones included; those of ExplainBlocked are not counted.
  uint32_t wait_reasons = 0;
};

}  // namespace muster::controller
