// What projects are charged. Pure; used by the rules.
#pragma once

#include <cstdint>

#include "controller/model/draft.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// The job's attempt has ended: its project pays for the slots that it held.
void ChargeProject(Draft& draft, uint64_t job_id, const RuleContext& context);

}  // namespace muster::controller
