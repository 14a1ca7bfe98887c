// THE table of a job's life: for every state and every input, what follows. Pure.
//
// Used by rules/jobs/job_driver, which carries out the effect. A test walks the whole product.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

// The inputs of the table. The caller has refused reports of attempts that are over, and has made
// of what ranks report what it means for the gang.
enum class JobInput : uint8_t {
  kPlaced,            // the scheduler chose slots for a gang
  kRankStarted,       // a rank's process exists
  kRankProgressed,    // a rank finished its first step
  kRankSucceeded,     // a rank ended well, others have not ended yet
  kGangSucceeded,     // the last rank ended well, as all others did
  kRankStopped,       // a rank left because it was asked to
  kRankFailed,        // a rank ended otherwise
  kWorkerGone,        // a worker with a rank that had not ended was lost, or its agent started anew
  kPlacementRefused,  // a worker refused its assignment
  kStartTimedOut,     // no first step, and no sign of one in time
  kHung,              // a rank made no progress in time
  kDrain,             // a worker of the gang will go away
  kClearedForRetry,   // no process of the attempt is left; it may be tried again
  kBudgetSpent,       // likewise, but it has been restarted too often
  kNotRetryable,      // likewise, but trying again would not help; or nothing is left to start from
  kNoProgressMade,    // likewise, but it gets no further than before
  kCancel,            // somebody asks for the end
  kCheckpointReport,  // a rank tells of a checkpoint
  kHold,              // somebody wants it not to start
  kRelease,
  kSuspend,  // somebody wants it to save and give its slots back until resumed
  kResume,
  kRequeue,            // somebody wants it to begin again from its newest checkpoint
  kPreempt,            // another job gets its slots
  kResize,             // it shall go on with more or fewer ranks
  kTimeLimit,          // it ran as long as it may
  kClearedForSuspend,  // no process of the attempt is left, and it shall stay suspended
  kDependencyFailed,   // a job that it waits for can no longer end as it should
  kDeadlinePassed,     // it has not started, and its deadline is over
};
inline constexpr int kJobInputCount = 29;

// How an input is taken in a state.
enum class Handling : uint8_t {
  kUnset,   // not in the table: the test finds it
  kMove,    // go to `next` because of `reason`
  kStay,    // take it in, with the effect, in the same state
  kNote,    // stay in the state, with the effect, and put it on record because of `reason`
  kIgnore,  // nothing to do, `because`; the sender hears OK
  kReject,  // refused with `code`, `because`
};

// What the driver does beside the change of state.
enum class JobEffect : uint8_t {
  kNone,
  kStopGangKill,  // StopRanks(KILL) to every worker with a rank that has not ended
  kStopGangSave,  // StopRanks(SAVE), once an attempt
  kStopGangTerm,  // StopRanks(TERM)
  kEndAttempt,    // the attempt is over and its fence dead
};

struct JobRule {
  Handling handling = Handling::kUnset;
  JobState next = JobState::kPending;
  Reason reason = Reason::kNone;
  JobEffect effect = JobEffect::kNone;
  absl::StatusCode code = absl::StatusCode::kOk;
  const char* because = "";
};

const JobRule& LookUp(JobState state, JobInput input);

absl::string_view JobInputName(JobInput input);  // "rank_failed"

}  // namespace muster::controller
