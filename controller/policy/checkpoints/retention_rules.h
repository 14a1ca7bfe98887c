// Which checkpoints are reread and which may go. Pure.
//
// Each COMMITTED checkpoint that stays is verified once, the newest first: each worker reads one at
// a time of a job, so that what waits meanwhile may become superfluous unread. One that a reading
// found bad is read again, by another worker where there is one. Kept are the newest
// `keep_last` verified ones, everything newer than the oldest of them, the newest best one
// and the newest verified best one (model/kept_checkpoints.h), and what another job that has not
// ended was submitted to begin from, until that one has a verified checkpoint of its own, and what
// is pinned; older ones go. So nothing goes before newer ones are verified, except what a person
// removed.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

// One event asks for no more than this; the rest follows with the next one.
inline constexpr size_t kMaxCheckpointActions = 1024;

// What agents should do now; each checkpoint has at most one assignment at a time, and the work is
// spread over the workers of the jobs' pools. No actions: nothing to do, or no worker to do it.
// `now` is the time since boot. Cost: jobs with checkpoints to reread or delete, plus workers.
AssignCheckpointWork PlanRetention(const Snapshot& snapshot, absl::Duration now);

// Checkpoints with which an agent has something to do.
std::set<uint64_t> CheckpointsWithWork(const Snapshot& snapshot);

// While the job's gang starts it may still load the checkpoint.
bool MayBeLoading(const Job& job, uint64_t checkpoint_id);

// Checkpoints that other jobs still need to begin from: they must not be deleted.
std::set<uint64_t> NeededByOthers(const Snapshot& snapshot);

// When a failed verification or deletion is due again, as a time since boot; infinite when none is.
absl::Duration NextRetentionRetry(const Snapshot& snapshot, absl::Duration now);

// The worker that should reread or delete a checkpoint of the job: one of its pool that is ready
// and sees its checkpoint root, the least busy with such work; another one than `other_than`. Null:
// none.
const Worker* PickVerifier(const Snapshot& snapshot, const Job& job,
                           const std::string& other_than = "");

// Whether another worker of the job's pools than `other_than` may yet be asked: it is not lost, but
// its agent is away, or has not reported yet whether it sees the job's checkpoint root. Right after
// the controller's start that is true of all.
bool AnotherIsAwaited(const Snapshot& snapshot, const Job& job, const std::string& other_than);

}  // namespace muster::controller
