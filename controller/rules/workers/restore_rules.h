// Compares an agent's Hello with the backup that this controller was restored from, and finds work
// that was done after the backup. Pure; used by the rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/model/draft.h"
#include "controller/model/types/assignment_types.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// How the refusal of a Hello begins while the restored controller is held: what follows is what the
// backup does not know.
inline constexpr char kHeldHello[] = "the controller was restored from an older backup: ";

// The agent has served this controller, and not since it was restored.
bool IsOfBeforeTheRestore(const Snapshot& snapshot, const RestoredFrom& restored,
                          const WorkerHello& event);

// What such an agent has done that the backup does not know, for people; empty: nothing.
std::vector<std::string> UnknownToBackup(const Snapshot& snapshot, const RestoredFrom& restored,
                                         const WorkerHello& event);

// Ranks that the backup has on the worker and that its agent, which has taken their start, does not
// have: how they ended was reported to the controller that is gone. Their gangs end, as when a
// worker is lost.
void EndRanksThatAreGone(Draft& draft, uint64_t worker_id, const WorkerHello& event,
                         const RuleContext& context);

}  // namespace muster::controller
