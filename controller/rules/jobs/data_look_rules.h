// Records in the model which workers are asked to check a job's data, and ends jobs whose data no
// worker can read. The answers are taken by TakeDataVerdicts (rules.h).
#pragma once

#include <cstdint>
#include <vector>

#include "controller/model/draft.h"
#include "controller/model/types/plan.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// A question that is void by now changes nothing.
void AskForDataLooks(Draft& draft, const std::vector<DataLook>& looks, const RuleContext& context);

// Ends those of the jobs that still wait and never ran, where every worker has still given their
// data up.
void EndJobsWithoutData(Draft& draft, const std::vector<uint64_t>& jobs,
                        const RuleContext& context);

}  // namespace muster::controller
