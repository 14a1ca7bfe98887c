// Where a gang goes: all of it or nothing, in one pool, on as few workers as can hold it. Pure over
// the worker index.
//
// Whole workers first, the largest first; the last one is the smallest that still holds the rest,
// so that large holes stay whole. The largest gang that fits is taken; workers on which failures
// began lately, the more of them the later, only where it is smaller without them. Cost follows the
// gang's workers, not the cluster, unless a job counts CPUs, memory or labels: then the workers in
// question that have free slots are looked at.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/model/types/plan.h"
#include "controller/policy/placement/demand.h"
#include "controller/policy/placement/worker_index.h"

namespace muster::controller {

// Takes the slots of at least min and at most `max_ranks` ranks out of the index, as many as fit.
// Empty: fewer than min fit, and nothing was taken.
std::vector<Grant> FitGang(WorkerIndex& index, int partition, Demand& demand, uint32_t max_ranks);

void GiveBack(WorkerIndex& index, SlotKind kind, const std::vector<Grant>& grants);

// The gang's ranks in order of worker and slot.
std::vector<RankPlacement> RanksOf(const WorkerIndex& index, const JobNeeds& needs,
                                   std::vector<Grant> grants);

}  // namespace muster::controller
