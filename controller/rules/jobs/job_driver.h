// Runs a job's inputs through THE table (model/job_state) and carries out the effects on a draft.
// Pure; used by the rules.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/model/draft.h"
#include "controller/model/job_state.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// How long ranks may take to leave before they are killed.
inline constexpr absl::Duration kCancelGrace = absl::Seconds(10);
inline constexpr absl::Duration kSaveGrace = absl::Seconds(25);

struct JobStep {
  JobInput input = JobInput::kPlaced;
  std::string actor;
  std::string message;                // for people; becomes the job's message at a move
  absl::Duration grace = kSaveGrace;  // of a save
};

// OK: taken in or ignored. Otherwise the table's refusal, "job 42: ...", and the draft is as it
// was.
absl::Status DriveJob(Draft& draft, uint64_t job_id, const JobStep& step,
                      const RuleContext& context);

// Why the live attempt ends: kept with the attempt. The first cause stands, except that a real one
// replaces "a peer was lost" and that what follows from our own request to save counts as
// preemption. Nothing is noted for a job that is being cancelled.
struct AttemptFailure {
  FailureClass failure_class = FailureClass::kNone;
  std::string cause;
  Missing missing = Missing::kNothing;
  int32_t rank = -1;  // that ended or stood still; -1: none alone
};
// True: it is the cause now.
bool NoteFailure(Draft& draft, uint64_t job_id, const AttemptFailure& failure);

// When no process of a gang that is being ended is left: decides what comes next and ends the
// attempt.
void EndAttemptIfRanksGone(Draft& draft, uint64_t job_id, const RuleContext& context);

// Orders the worker to stop the ranks of the fence, unless the outbox holds that order, or a harder
// one, already.
struct StopOrder {
  Fence fence;
  StopMode mode = StopMode::kKill;
  absl::Duration grace;
  std::string reason;
};
void OrderStop(Draft& draft, const Worker& worker, const StopOrder& order);

// Gives the rank's slots back: its process is gone, or the worker's agent began anew.
void ReleaseSlot(Draft& draft, uint64_t job_id, uint32_t attempt, uint32_t rank);

}  // namespace muster::controller
