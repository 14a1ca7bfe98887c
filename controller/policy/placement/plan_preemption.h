// Which running gangs make way for the first job of a partition that does not fit: elastic ones
// shrink first, then those of strictly lower priority are preempted (policy/placement/preemption.h
// chooses). Pure over the worker index.
//
// Slots of gangs that are being ended already count as free, so that nobody is stopped for a job
// that will get its slots anyway. When even all who may be stopped would not free enough for the
// whole gang, nobody is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "controller/model/types/plan.h"
#include "controller/policy/limits/quota.h"
#include "controller/policy/placement/demand.h"
#include "controller/policy/placement/elastic.h"
#include "controller/policy/placement/worker_index.h"

namespace muster::controller {

// The job that does not fit, in one partition. What the index holds as taken stays with others.
struct Preemptor {
  const Job& job;
  Demand& demand;
  int partition = -1;
};

// The gangs to stop, or to shrink, so that the preemptor's gang fits. Empty: none need be, since
// those that leave already are enough, or none would help. `now`: ledger time.
std::vector<StopGang> PlanPreemption(const Snapshot& snapshot, const WorkerIndex& index,
                                     const Preemptor& preemptor, const ElasticSettings& settings,
                                     absl::Time now);

// The same for a job that its quotas hold back (quota_preemption.cc): those of its own project, and
// of its own user, that are of lower priority or may shrink leave first, as many as the quotas ask
// for, then whoever else must for the gang to fit. Nothing: it stays over its quotas whoever
// leaves.
std::optional<std::vector<StopGang>> PlanPreemptionWithinQuota(
    const Snapshot& snapshot, const WorkerIndex& index, const Preemptor& preemptor,
    const SlotsOver& over, const ElasticSettings& settings, absl::Time now);

}  // namespace muster::controller
