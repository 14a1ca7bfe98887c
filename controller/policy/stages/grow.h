// The last stage, once a round: elastic gangs go on with more ranks in slots that are free when all
// jobs that wait were considered, and that nobody waits for. Pure.
#pragma once

#include "controller/policy/stages/round.h"

namespace muster::controller {

// Stops at most one gang a partition: the next round sees its effect.
void GrowElastic(Round& round);

}  // namespace muster::controller
