// A Bulk stream over a simulated wire, from an agent to the controller that listens when its first
// batch arrives.
#pragma once

#include <memory>

#include "tests/sim/bulk_agent.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_controller.h"

namespace muster::sim {

// What arrives at the agent runs in `execution`, which outlives the call.
std::shared_ptr<BulkCall> CallBulk(SimController& controller, std::shared_ptr<Wire> wire,
                                   Execution& execution, BulkHandlers handlers);

}  // namespace muster::sim
