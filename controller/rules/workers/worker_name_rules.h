// Which agent may speak under a worker's name. Pure; used by OnHello.
//
// Two machines may come under one name, as clones of one image do. Whoever holds the name keeps it
// until it is shown to be dead, has left in good order, or its lease is over: otherwise the two
// would end each other's jobs by turns. Only the next agent of the same data folder can show it,
// by naming the incarnation, under the same identity: it has locked that folder and ended what was
// left there (docs/decisions/0007-who-holds-a-workers-name.md).
#pragma once

#include "absl/status/status.h"
#include "controller/model/types/events.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

// Whether the claimant, another incarnation than the holder, may take the name over.
// ALREADY_EXISTS: it was fenced and never comes back. ABORTED: the holder may live; try later.
absl::Status MayTakeName(const Worker& holder, const WorkerHello& claimant);

}  // namespace muster::controller
