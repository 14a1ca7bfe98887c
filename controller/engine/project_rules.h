// What projects are charged. Pure; used by the rules.
#pragma once

#include <cstdint>

#include "controller/engine/rules.h"
#include "controller/model/draft.h"

namespace muster::controller {

// The job's attempt has ended: its project pays for the slots that it held.
void ChargeProject(Draft& draft, uint64_t job_id, const RuleContext& context);

}  // namespace muster::controller
