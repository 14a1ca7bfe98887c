#include "controller/model/job_state.h"

#include <array>

namespace muster::controller {
namespace {

using S = JobState;
using I = JobInput;
using R = Reason;
using E = JobEffect;

constexpr JobRule Move(S next, R reason, E effect = E::kNone) {
  return {.handling = Handling::kMove, .next = next, .reason = reason, .effect = effect};
}
constexpr JobRule Note(R reason, E effect = E::kNone) {
  return {.handling = Handling::kNote, .reason = reason, .effect = effect};
}
constexpr JobRule Stay(E effect = E::kNone) {
  return {.handling = Handling::kStay, .effect = effect};
}
constexpr JobRule Ignore(const char* because) {
  return {.handling = Handling::kIgnore, .because = because};
}
constexpr JobRule Reject(const char* because) {
  return {.handling = Handling::kReject,
          .code = absl::StatusCode::kFailedPrecondition,
          .because = because};
}

constexpr const char* kNoAttempt = "it has no live attempt";
constexpr const char* kEnded = "it has ended";
constexpr const char* kNotClearing = "no attempt of it is being cleared";
constexpr const char* kBeingStopped = "its ranks are being stopped already";
constexpr const char* kSuspended = "it is suspended";
constexpr const char* kHoldsSlots = "it has started: suspend it instead";
constexpr const char* kBeingCancelled = "it is being cancelled";

struct Entry {
  S state;
  I input;
  JobRule rule;
};

constexpr Entry kEntries[] = {
    {S::kPending, I::kPlaced, Move(S::kStarting, R::kPlaced)},
    {S::kPending, I::kRankStarted, Reject(kNoAttempt)},
    {S::kPending, I::kRankProgressed, Reject(kNoAttempt)},
    {S::kPending, I::kRankSucceeded, Reject(kNoAttempt)},
    {S::kPending, I::kGangSucceeded, Reject(kNoAttempt)},
    {S::kPending, I::kRankStopped, Reject(kNoAttempt)},
    {S::kPending, I::kRankFailed, Reject(kNoAttempt)},
    {S::kPending, I::kWorkerGone, Ignore(kNoAttempt)},
    {S::kPending, I::kPlacementRefused, Ignore(kNoAttempt)},
    {S::kPending, I::kStartTimedOut, Ignore(kNoAttempt)},
    {S::kPending, I::kHung, Ignore(kNoAttempt)},
    {S::kPending, I::kDrain, Ignore(kNoAttempt)},
    {S::kPending, I::kClearedForRetry, Ignore(kNotClearing)},
    {S::kPending, I::kBudgetSpent, Ignore(kNotClearing)},
    {S::kPending, I::kNotRetryable, Move(S::kFailed, R::kNotRetryable)},
    {S::kPending, I::kNoProgressMade, Ignore(kNotClearing)},
    {S::kPending, I::kCancel, Move(S::kCancelled, R::kCancelDone)},
    {S::kPending, I::kCheckpointReport, Reject(kNoAttempt)},
    {S::kPending, I::kHold, Note(R::kHeld)},
    {S::kPending, I::kRelease, Note(R::kReleased)},
    {S::kPending, I::kSuspend, Move(S::kSuspended, R::kSuspendDone)},
    {S::kPending, I::kResume, Ignore("it is not suspended")},
    {S::kPending, I::kRequeue, Ignore("it waits in the queue already")},
    {S::kPending, I::kPreempt, Ignore(kNoAttempt)},
    {S::kPending, I::kResize, Ignore(kNoAttempt)},
    {S::kPending, I::kTimeLimit, Move(S::kFailed, R::kTimeLimitReached)},
    {S::kPending, I::kClearedForSuspend, Ignore(kNotClearing)},
    {S::kPending, I::kDependencyFailed, Move(S::kCancelled, R::kDependencyFailed)},
    {S::kPending, I::kDeadlinePassed, Move(S::kFailed, R::kDeadlinePassed)},

    {S::kStarting, I::kPlaced, Reject("it is placed already")},
    {S::kStarting, I::kRankStarted, Stay()},
    {S::kStarting, I::kRankProgressed, Move(S::kRunning, R::kFirstProgress)},
    {S::kStarting, I::kRankSucceeded, Stay()},
    {S::kStarting, I::kGangSucceeded, Move(S::kSucceeded, R::kAllRanksSucceeded, E::kEndAttempt)},
    {S::kStarting, I::kRankStopped, Move(S::kRecovering, R::kWorkerDraining, E::kStopGangSave)},
    {S::kStarting, I::kRankFailed, Move(S::kRecovering, R::kRankFailed, E::kStopGangKill)},
    {S::kStarting, I::kWorkerGone, Move(S::kRecovering, R::kWorkerGone, E::kStopGangKill)},
    {S::kStarting, I::kPlacementRefused,
     Move(S::kRecovering, R::kPlacementRevoked, E::kStopGangKill)},
    {S::kStarting, I::kStartTimedOut, Move(S::kRecovering, R::kStartTimedOut, E::kStopGangKill)},
    {S::kStarting, I::kHung, Move(S::kRecovering, R::kNoProgress, E::kStopGangKill)},
    {S::kStarting, I::kDrain, Note(R::kWorkerDraining, E::kStopGangSave)},
    {S::kStarting, I::kClearedForRetry, Ignore(kNotClearing)},
    {S::kStarting, I::kBudgetSpent, Ignore(kNotClearing)},
    {S::kStarting, I::kNotRetryable, Ignore(kNotClearing)},
    {S::kStarting, I::kNoProgressMade, Ignore(kNotClearing)},
    {S::kStarting, I::kCancel, Move(S::kStopping, R::kCancelRequested, E::kStopGangTerm)},
    {S::kStarting, I::kCheckpointReport, Stay()},
    {S::kStarting, I::kHold, Reject(kHoldsSlots)},
    {S::kStarting, I::kRelease, Ignore("it is not held")},
    {S::kStarting, I::kSuspend, Move(S::kRecovering, R::kSuspendRequested, E::kStopGangSave)},
    {S::kStarting, I::kResume, Ignore("it is not suspended")},
    {S::kStarting, I::kRequeue, Move(S::kRecovering, R::kRequeued, E::kStopGangSave)},
    {S::kStarting, I::kPreempt, Move(S::kRecovering, R::kPreemptedByJob, E::kStopGangSave)},
    {S::kStarting, I::kResize, Move(S::kRecovering, R::kResized, E::kStopGangSave)},
    {S::kStarting, I::kTimeLimit, Move(S::kRecovering, R::kTimeLimitReached, E::kStopGangSave)},
    {S::kStarting, I::kClearedForSuspend, Ignore(kNotClearing)},
    {S::kStarting, I::kDependencyFailed, Ignore("it has started")},
    {S::kStarting, I::kDeadlinePassed, Ignore("it has started")},

    {S::kRunning, I::kPlaced, Reject("it runs already")},
    {S::kRunning, I::kRankStarted, Stay()},
    {S::kRunning, I::kRankProgressed, Stay()},
    {S::kRunning, I::kRankSucceeded, Stay()},
    {S::kRunning, I::kGangSucceeded, Move(S::kSucceeded, R::kAllRanksSucceeded, E::kEndAttempt)},
    {S::kRunning, I::kRankStopped, Move(S::kRecovering, R::kWorkerDraining, E::kStopGangSave)},
    {S::kRunning, I::kRankFailed, Move(S::kRecovering, R::kRankFailed, E::kStopGangKill)},
    {S::kRunning, I::kWorkerGone, Move(S::kRecovering, R::kWorkerGone, E::kStopGangKill)},
    {S::kRunning, I::kPlacementRefused,
     Move(S::kRecovering, R::kPlacementRevoked, E::kStopGangKill)},
    {S::kRunning, I::kStartTimedOut, Ignore("it made its first step meanwhile")},
    {S::kRunning, I::kHung, Move(S::kRecovering, R::kNoProgress, E::kStopGangKill)},
    {S::kRunning, I::kDrain, Note(R::kWorkerDraining, E::kStopGangSave)},
    {S::kRunning, I::kClearedForRetry, Ignore(kNotClearing)},
    {S::kRunning, I::kBudgetSpent, Ignore(kNotClearing)},
    {S::kRunning, I::kNotRetryable, Ignore(kNotClearing)},
    {S::kRunning, I::kNoProgressMade, Ignore(kNotClearing)},
    {S::kRunning, I::kCancel, Move(S::kStopping, R::kCancelRequested, E::kStopGangTerm)},
    {S::kRunning, I::kCheckpointReport, Stay()},
    {S::kRunning, I::kHold, Reject(kHoldsSlots)},
    {S::kRunning, I::kRelease, Ignore("it is not held")},
    {S::kRunning, I::kSuspend, Move(S::kRecovering, R::kSuspendRequested, E::kStopGangSave)},
    {S::kRunning, I::kResume, Ignore("it is not suspended")},
    {S::kRunning, I::kRequeue, Move(S::kRecovering, R::kRequeued, E::kStopGangSave)},
    {S::kRunning, I::kPreempt, Move(S::kRecovering, R::kPreemptedByJob, E::kStopGangSave)},
    {S::kRunning, I::kResize, Move(S::kRecovering, R::kResized, E::kStopGangSave)},
    {S::kRunning, I::kTimeLimit, Move(S::kRecovering, R::kTimeLimitReached, E::kStopGangSave)},
    {S::kRunning, I::kClearedForSuspend, Ignore(kNotClearing)},
    {S::kRunning, I::kDependencyFailed, Ignore("it has started")},
    {S::kRunning, I::kDeadlinePassed, Ignore("it has started")},

    {S::kRecovering, I::kPlaced, Reject("its last attempt is not cleared yet")},
    {S::kRecovering, I::kRankStarted, Stay()},
    {S::kRecovering, I::kRankProgressed, Stay()},
    {S::kRecovering, I::kRankSucceeded, Stay()},
    // Taken for hung, or too slow to start, yet it finished before the order to stop reached it.
    {S::kRecovering, I::kGangSucceeded, Move(S::kSucceeded, R::kAllRanksSucceeded, E::kEndAttempt)},
    {S::kRecovering, I::kRankStopped, Stay()},
    {S::kRecovering, I::kRankFailed, Stay()},
    {S::kRecovering, I::kWorkerGone, Stay()},
    {S::kRecovering, I::kPlacementRefused, Stay()},
    {S::kRecovering, I::kStartTimedOut, Ignore(kBeingStopped)},
    {S::kRecovering, I::kHung, Ignore(kBeingStopped)},
    {S::kRecovering, I::kDrain, Ignore(kBeingStopped)},
    {S::kRecovering, I::kClearedForRetry, Move(S::kPending, R::kAttemptCleared, E::kEndAttempt)},
    {S::kRecovering, I::kBudgetSpent, Move(S::kFailed, R::kRestartBudgetSpent, E::kEndAttempt)},
    {S::kRecovering, I::kNotRetryable, Move(S::kFailed, R::kNotRetryable, E::kEndAttempt)},
    {S::kRecovering, I::kNoProgressMade, Move(S::kFailed, R::kNoProgress, E::kEndAttempt)},
    {S::kRecovering, I::kCancel, Move(S::kStopping, R::kCancelRequested, E::kStopGangTerm)},
    {S::kRecovering, I::kCheckpointReport, Stay()},
    {S::kRecovering, I::kHold, Note(R::kHeld)},
    {S::kRecovering, I::kRelease, Note(R::kReleased)},
    {S::kRecovering, I::kSuspend, Note(R::kSuspendRequested)},
    {S::kRecovering, I::kResume, Note(R::kResumed)},
    {S::kRecovering, I::kRequeue, Ignore("it goes back to the queue already")},
    {S::kRecovering, I::kPreempt, Ignore(kBeingStopped)},
    {S::kRecovering, I::kResize, Ignore(kBeingStopped)},
    {S::kRecovering, I::kTimeLimit, Ignore(kBeingStopped)},
    {S::kRecovering, I::kClearedForSuspend, Move(S::kSuspended, R::kSuspendDone, E::kEndAttempt)},
    {S::kRecovering, I::kDependencyFailed, Ignore("it has started")},
    {S::kRecovering, I::kDeadlinePassed, Ignore(kBeingStopped)},

    {S::kStopping, I::kPlaced, Reject("it is being cancelled")},
    {S::kStopping, I::kRankStarted, Stay()},
    {S::kStopping, I::kRankProgressed, Stay()},
    {S::kStopping, I::kRankSucceeded, Stay()},
    {S::kStopping, I::kGangSucceeded, Move(S::kCancelled, R::kCancelDone, E::kEndAttempt)},
    {S::kStopping, I::kRankStopped, Stay()},
    {S::kStopping, I::kRankFailed, Stay()},
    {S::kStopping, I::kWorkerGone, Stay()},
    {S::kStopping, I::kPlacementRefused, Stay()},
    {S::kStopping, I::kStartTimedOut, Ignore(kBeingStopped)},
    {S::kStopping, I::kHung, Ignore(kBeingStopped)},
    {S::kStopping, I::kDrain, Ignore(kBeingStopped)},
    {S::kStopping, I::kClearedForRetry, Move(S::kCancelled, R::kCancelDone, E::kEndAttempt)},
    {S::kStopping, I::kBudgetSpent, Move(S::kCancelled, R::kCancelDone, E::kEndAttempt)},
    {S::kStopping, I::kNotRetryable, Move(S::kCancelled, R::kCancelDone, E::kEndAttempt)},
    {S::kStopping, I::kNoProgressMade, Move(S::kCancelled, R::kCancelDone, E::kEndAttempt)},
    {S::kStopping, I::kCancel, Ignore("it is being cancelled already")},
    {S::kStopping, I::kCheckpointReport, Stay()},
    {S::kStopping, I::kHold, Reject(kBeingCancelled)},
    {S::kStopping, I::kRelease, Reject(kBeingCancelled)},
    {S::kStopping, I::kSuspend, Reject(kBeingCancelled)},
    {S::kStopping, I::kResume, Reject(kBeingCancelled)},
    {S::kStopping, I::kRequeue, Reject(kBeingCancelled)},
    {S::kStopping, I::kPreempt, Ignore(kBeingStopped)},
    {S::kStopping, I::kResize, Ignore(kBeingStopped)},
    {S::kStopping, I::kTimeLimit, Ignore(kBeingStopped)},
    {S::kStopping, I::kClearedForSuspend, Move(S::kCancelled, R::kCancelDone, E::kEndAttempt)},
    {S::kStopping, I::kDependencyFailed, Ignore(kBeingStopped)},
    {S::kStopping, I::kDeadlinePassed, Ignore(kBeingStopped)},

    {S::kSuspended, I::kPlaced, Reject(kSuspended)},
    {S::kSuspended, I::kRankStarted, Reject(kSuspended)},
    {S::kSuspended, I::kRankProgressed, Reject(kSuspended)},
    {S::kSuspended, I::kRankSucceeded, Reject(kSuspended)},
    {S::kSuspended, I::kGangSucceeded, Reject(kSuspended)},
    {S::kSuspended, I::kRankStopped, Reject(kSuspended)},
    {S::kSuspended, I::kRankFailed, Reject(kSuspended)},
    {S::kSuspended, I::kWorkerGone, Ignore(kSuspended)},
    {S::kSuspended, I::kPlacementRefused, Ignore(kSuspended)},
    {S::kSuspended, I::kStartTimedOut, Ignore(kSuspended)},
    {S::kSuspended, I::kHung, Ignore(kSuspended)},
    {S::kSuspended, I::kDrain, Ignore(kSuspended)},
    {S::kSuspended, I::kClearedForRetry, Ignore(kSuspended)},
    {S::kSuspended, I::kBudgetSpent, Ignore(kSuspended)},
    {S::kSuspended, I::kNotRetryable, Ignore(kSuspended)},
    {S::kSuspended, I::kNoProgressMade, Ignore(kSuspended)},
    {S::kSuspended, I::kCancel, Move(S::kCancelled, R::kCancelDone)},
    {S::kSuspended, I::kCheckpointReport, Reject(kSuspended)},
    {S::kSuspended, I::kHold, Reject("it is suspended, and stays so until it is resumed")},
    {S::kSuspended, I::kRelease, Reject("it is suspended: resume it")},
    {S::kSuspended, I::kSuspend, Ignore("it is suspended already")},
    {S::kSuspended, I::kResume, Move(S::kPending, R::kResumed)},
    {S::kSuspended, I::kRequeue, Reject("it is suspended: resume it")},
    {S::kSuspended, I::kPreempt, Ignore(kSuspended)},
    {S::kSuspended, I::kResize, Ignore(kSuspended)},
    {S::kSuspended, I::kTimeLimit, Ignore(kSuspended)},
    {S::kSuspended, I::kClearedForSuspend, Ignore(kSuspended)},
    {S::kSuspended, I::kDependencyFailed, Ignore(kSuspended)},
    {S::kSuspended, I::kDeadlinePassed, Move(S::kFailed, R::kDeadlinePassed)},
};

// The three terminal states differ in what a second cancel hears, and a lost or cancelled job may
// be queued again.
constexpr JobRule Ended(S state, I input) {
  switch (input) {
    case I::kCancel:
      return state == S::kCancelled ? Ignore("it is cancelled already") : Reject(kEnded);
    case I::kPlaced:
    case I::kRankStarted:
    case I::kRankProgressed:
    case I::kRankSucceeded:
    case I::kGangSucceeded:
    case I::kRankStopped:
    case I::kRankFailed:
    case I::kCheckpointReport:
      return Reject(kEnded);
    case I::kWorkerGone:
    case I::kPlacementRefused:
    case I::kStartTimedOut:
    case I::kHung:
    case I::kDrain:
    case I::kClearedForRetry:
    case I::kBudgetSpent:
    case I::kNotRetryable:
    case I::kNoProgressMade:
    case I::kPreempt:
    case I::kResize:
    case I::kTimeLimit:
    case I::kClearedForSuspend:
    case I::kDependencyFailed:
    case I::kDeadlinePassed:
      return Ignore(kEnded);
    case I::kHold:
    case I::kRelease:
    case I::kSuspend:
    case I::kResume:
      return Reject(kEnded);
    case I::kRequeue:
      return state == S::kSucceeded ? Reject("it has succeeded: submit it again")
                                    : Move(S::kPending, R::kRequeued);
  }
  return {};
}

using Table = std::array<std::array<JobRule, kJobInputCount>, kJobStateCount + 1>;

constexpr Table MakeTable() {
  Table table{};
  for (const Entry& entry : kEntries) {
    table[static_cast<int>(entry.state)][static_cast<int>(entry.input)] = entry.rule;
  }
  for (S state : {S::kSucceeded, S::kFailed, S::kCancelled}) {
    for (int input = 0; input < kJobInputCount; ++input) {
      table[static_cast<int>(state)][input] = Ended(state, static_cast<I>(input));
    }
  }
  return table;
}

constexpr Table kTable = MakeTable();

}  // namespace

const JobRule& LookUp(JobState state, JobInput input) {
  return kTable[static_cast<int>(state)][static_cast<int>(input)];
}

absl::string_view JobInputName(JobInput input) {
  switch (input) {
    case I::kPlaced:
      return "placed";
    case I::kRankStarted:
      return "rank_started";
    case I::kRankProgressed:
      return "rank_progressed";
    case I::kRankSucceeded:
      return "rank_succeeded";
    case I::kGangSucceeded:
      return "gang_succeeded";
    case I::kRankStopped:
      return "rank_stopped";
    case I::kRankFailed:
      return "rank_failed";
    case I::kWorkerGone:
      return "worker_gone";
    case I::kPlacementRefused:
      return "placement_refused";
    case I::kStartTimedOut:
      return "start_timed_out";
    case I::kHung:
      return "hung";
    case I::kDrain:
      return "drain";
    case I::kClearedForRetry:
      return "cleared_for_retry";
    case I::kBudgetSpent:
      return "budget_spent";
    case I::kNotRetryable:
      return "not_retryable";
    case I::kNoProgressMade:
      return "no_progress_made";
    case I::kCancel:
      return "cancel";
    case I::kCheckpointReport:
      return "checkpoint_report";
    case I::kHold:
      return "hold";
    case I::kRelease:
      return "release";
    case I::kSuspend:
      return "suspend";
    case I::kResume:
      return "resume";
    case I::kRequeue:
      return "requeue";
    case I::kPreempt:
      return "preempt";
    case I::kResize:
      return "resize";
    case I::kTimeLimit:
      return "time_limit";
    case I::kClearedForSuspend:
      return "cleared_for_suspend";
    case I::kDependencyFailed:
      return "dependency_failed";
    case I::kDeadlinePassed:
      return "deadline_passed";
  }
  return "unknown";
}

}  // namespace muster::controller
