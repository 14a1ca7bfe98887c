// Carries out what the scheduler decides about running gangs: they save, leave and queue again, to
// make way for another job or to go on at another size. Pure; used by OnPlan.
#pragma once

#include "controller/model/draft.h"
#include "controller/model/types/plan.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// Checks the decision again; one that no longer applies does nothing. What the gang's ranks do from
// here on is not their fault: the attempt ends as preempted, free of charge.
void StopRunningGang(Draft& draft, const StopGang& stop, const RuleContext& context);

}  // namespace muster::controller
