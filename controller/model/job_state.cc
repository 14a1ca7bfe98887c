#include "controller/model/job_state.h"

#include <array>

namespace muster::controller {
namespace {

using S = JobState;
using I = JobInput;
using R = Reason;
using E = JobEffect;

constexpr JobRule Move(S next, R reason, E effect = E::kNone) {
  return {.verdict = Verdict::kMove, .next = next, .reason = reason, .effect = effect};
}
constexpr JobRule Stay(E effect = E::kNone) {
  return {.verdict = Verdict::kStay, .effect = effect};
}
constexpr JobRule Ignore(const char* because) {
  return {.verdict = Verdict::kIgnore, .because = because};
}
constexpr JobRule Reject(const char* because) {
  return {.verdict = Verdict::kReject,
          .code = absl::StatusCode::kFailedPrecondition,
          .because = because};
}

constexpr const char* kNoAttempt = "it has no live attempt";
constexpr const char* kEnded = "it has ended";
constexpr const char* kNotClearing = "no attempt of it is being cleared";
constexpr const char* kBeingStopped = "its ranks are being stopped already";
constexpr const char* kSuspended = "it is suspended";

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
    {S::kPending, I::kNotRetryable, Ignore(kNotClearing)},
    {S::kPending, I::kCancel, Move(S::kCancelled, R::kCancelDone)},
    {S::kPending, I::kCheckpointReport, Reject(kNoAttempt)},

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
    {S::kStarting, I::kDrain, Stay(E::kStopGangSave)},
    {S::kStarting, I::kClearedForRetry, Ignore(kNotClearing)},
    {S::kStarting, I::kBudgetSpent, Ignore(kNotClearing)},
    {S::kStarting, I::kNotRetryable, Ignore(kNotClearing)},
    {S::kStarting, I::kCancel, Move(S::kStopping, R::kCancelRequested, E::kStopGangTerm)},
    {S::kStarting, I::kCheckpointReport, Stay()},

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
    {S::kRunning, I::kDrain, Stay(E::kStopGangSave)},
    {S::kRunning, I::kClearedForRetry, Ignore(kNotClearing)},
    {S::kRunning, I::kBudgetSpent, Ignore(kNotClearing)},
    {S::kRunning, I::kNotRetryable, Ignore(kNotClearing)},
    {S::kRunning, I::kCancel, Move(S::kStopping, R::kCancelRequested, E::kStopGangTerm)},
    {S::kRunning, I::kCheckpointReport, Stay()},

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
    {S::kRecovering, I::kCancel, Move(S::kStopping, R::kCancelRequested, E::kStopGangTerm)},
    {S::kRecovering, I::kCheckpointReport, Stay()},

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
    {S::kStopping, I::kCancel, Ignore("it is being cancelled already")},
    {S::kStopping, I::kCheckpointReport, Stay()},

    // No verb leads here yet.
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
    {S::kSuspended, I::kCancel, Move(S::kCancelled, R::kCancelDone)},
    {S::kSuspended, I::kCheckpointReport, Reject(kSuspended)},
};

// The three terminal states differ only in what a second cancel hears.
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
      return Ignore(kEnded);
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
    case I::kCancel:
      return "cancel";
    case I::kCheckpointReport:
      return "checkpoint_report";
  }
  return "unknown";
}

}  // namespace muster::controller
