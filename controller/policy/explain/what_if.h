// Edits of a copy of the world, to find out what would happen if. Pure.
//
// They do what the engine's rules would come to, as far as the policies decide by it: no reports,
// no ledger, and no checkpoints, so that what makes way is taken to lose what it has not saved.
// Used by explain and outlook; never on a draft that is to be stored.
#pragma once

#include <cstdint>
#include <vector>

#include "controller/model/draft.h"
#include "controller/model/types/plan.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

// The job's live attempt, if it has one, ends at context.wall: all that it holds is free, its
// project pays for it, and the job is in state `next`.
void EndAttempt(Draft& draft, uint64_t job_id, JobState next, const ScheduleContext& context);

// The gang runs from context.wall on. Requires that it fits.
void StartGang(Draft& draft, const PlaceGang& gang, const ScheduleContext& context);

// The gang leaves at once, and waits in the queue.
void StopAtOnce(Draft& draft, const StopGang& stop, const ScheduleContext& context);

// Nothing but slots, order, array and quotas keeps the job from starting.
void LiftAdmission(Draft& draft, uint64_t job_id, const ScheduleContext& context);
// Any number of its array may run beside it.
void LiftArray(Draft& draft, uint64_t job_id);
// Its project and all the users there may hold any number of slots.
void LiftQuotas(Draft& draft, uint64_t job_id);

}  // namespace muster::controller
