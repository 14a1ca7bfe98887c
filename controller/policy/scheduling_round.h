// One scheduling round: goes through the queue in order, takes each job through the stages
// (policy/stages), and fills a plan. What the stages take from the worker index is given back at
// the end, so that the index stands for the snapshot again. Pure.
#pragma once

#include "controller/policy/stages/round.h"

namespace muster::controller {

Decision RunRound(const RoundInput& input);

}  // namespace muster::controller
