// Which checkpoints are reread and which may go. Pure.
//
// Each COMMITTED checkpoint is verified once. Kept are the newest `keep_last` verified ones,
// everything newer than the oldest of them, the newest best one, and what another job that has not
// ended was submitted to begin from, until that one has a verified checkpoint of its own; older
// ones go. So nothing goes before newer ones are verified.
#pragma once

#include <cstdint>
#include <set>

#include "absl/time/time.h"
#include "controller/model/events.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// What agents should do now; each checkpoint has at most one assignment at a time. No actions:
// nothing to do, or no worker to do it. `now` is the time since boot.
CareForCheckpoints PlanRetention(const Snapshot& snapshot, absl::Duration now);

// Checkpoints that other jobs still need to begin from: they must not be deleted.
std::set<uint64_t> CountedOnByOthers(const Snapshot& snapshot);

// When a failed verification or deletion is due again, as a time since boot; infinite when none is.
absl::Duration NextRetentionRetry(const Snapshot& snapshot, absl::Duration now);

// The worker that should look after a checkpoint of the job: one of its pool that is ready, the
// least busy with such work. Null: none.
const Worker* ChooseCaretaker(const Snapshot& snapshot, const Job& job);

}  // namespace muster::controller
