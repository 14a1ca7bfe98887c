// The words for people.
#include "controller/model/types/checkpoint_types.h"
#include "controller/model/types/job_types.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

absl::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "PENDING";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kRecovering:
      return "RECOVERING";
    case JobState::kStopping:
      return "STOPPING";
    case JobState::kSuspended:
      return "SUSPENDED";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

absl::string_view FailureClassName(FailureClass kind) {
  switch (kind) {
    case FailureClass::kNone:
      return "";
    case FailureClass::kPreempted:
      return "PREEMPTED";
    case FailureClass::kWorkerLost:
      return "WORKER_LOST";
    case FailureClass::kHang:
      return "HANG";
    case FailureClass::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case FailureClass::kNonFinite:
      return "NON_FINITE";
    case FailureClass::kDataError:
      return "DATA_ERROR";
    case FailureClass::kCheckpointFailed:
      return "CHECKPOINT_FAILED";
    case FailureClass::kCorruption:
      return "CORRUPTION";
    case FailureClass::kApplication:
      return "APPLICATION";
    case FailureClass::kStartFailed:
      return "START_FAILED";
    case FailureClass::kRankKilled:
      return "RANK_KILLED";
    case FailureClass::kPeerLost:
      return "PEER_LOST";
    case FailureClass::kTimeLimit:
      return "TIME_LIMIT";
    case FailureClass::kStorageUnavailable:
      return "STORAGE_UNAVAILABLE";
  }
  return "UNKNOWN";
}

absl::string_view SlotKindName(SlotKind kind) { return kind == SlotKind::kGpu ? "GPU" : "CPU"; }

absl::string_view RankStateName(RankState state) {
  switch (state) {
    case RankState::kAssigned:
      return "assigned";
    case RankState::kStarted:
      return "started";
    case RankState::kRunning:
      return "running";
    case RankState::kExited:
      return "exited";
    case RankState::kLost:
      return "lost";
    case RankState::kUnkillable:
      return "unkillable";
  }
  return "unknown";
}

absl::string_view CheckpointStateName(CheckpointState state) {
  switch (state) {
    case CheckpointState::kWriting:
      return "WRITING";
    case CheckpointState::kCommitted:
      return "COMMITTED";
    case CheckpointState::kVerified:
      return "VERIFIED";
    case CheckpointState::kCorrupt:
      return "CORRUPT";
    case CheckpointState::kDeleted:
      return "DELETED";
  }
  return "UNKNOWN";
}

absl::string_view WorkerStateName(const Worker& worker) {
  if (worker.lost) return "lost";
  if (worker.draining) return "draining";
  if (worker.cordoned) return worker.pulse.holders.empty() ? "drained" : "draining";
  if (worker.quarantined()) return "quarantined";
  return worker.presence() == Presence::kSuspect ? "suspect" : "ready";
}

}  // namespace muster::controller
