// How slot-time gets its label. Pure; time comes as an argument.
//
// A label follows from the model alone: the rank's state, rank 0's phase, and whether the gang was
// asked to leave. So an open interval is closed under the label of the state that is about to
// change: Draft does it at the first edit of a job in each batch, and no rule can forget it.
//   assigned: start.   asked to stop or save, or the attempt is being ended: drain.
//   else by rank 0's phase: rendezvous; load; save -> save_stall; done -> idle; start -> start
//   (productive once the first step is done, and from the start for a command, whose phase is
//   `run`); any other -> productive, or recompute while the step repeats what was done before.
// What was held since the last progress is only noted as such: a step then confirms it, and a hang
// or a lost worker makes it hang. A rank that is lost with its worker holds nothing any more: the
// machine is gone.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/types/checkpoint_types.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

// Ledger times and slot-times are whole nanoseconds, as they are stored: a finer clock is cut down.
absl::Time WholeNanoseconds(absl::Time time);

// Closes the open interval at `now` (ledger time). A time before the last one changes nothing.
void CloseInterval(Job& job, absl::Time now);

// The current attempt begins, and stands where it resumes. Requires that the interval is closed.
void BeginAttempt(Job& job);

// The rank gives its slots back.
void EndHold(Rank& rank, absl::Time now);

// Rank 0 said where it is. `stall_per_step`: how long a step of late waited for checkpoints.
// Requires that the interval is closed.
struct ProgressNote {
  absl::string_view phase;
  int64_t step = 0;    // 0: not known yet
  bool moved = false;  // the epoch, or anything else that counts as progress
  absl::Duration stall_per_step;
};
void NoteProgress(const Attempt& attempt, JobLedger& ledger, const ProgressNote& note);

// The live attempt has done at least so many steps; as above.
void NoteStep(Job& job, int64_t step);

// Nothing has moved since the last progress, as was noticed now. Requires that the interval is
// closed.
void NoteStandstill(Job& job);

// When the attempt got its slots, by ledger time; by the wall clock where an older Muster noted
// nothing else.
absl::Time HeldFrom(const Attempt& attempt);

// When the attempt ended, likewise; InfiniteFuture: it lives.
absl::Time HeldUntil(const Attempt& attempt);

// How long the attempt has held its slots, or did, from placement to end: by ledger time, or by the
// wall clock where an older Muster noted nothing else. Never below zero.
absl::Duration Lasted(const Attempt& attempt, absl::Time now);

// When something happened to the job, by ledger time; by the wall clock where an older Muster noted
// nothing else.
absl::Time HappenedAt(const JobEvent& event);
absl::Time SubmittedAt(const Job& job);
absl::Time FinishedAt(const Job& job);  // InfinitePast: not yet

// When the checkpoint was committed, or begun while it is WRITING: likewise.
absl::Time CreatedAt(const Checkpoint& checkpoint);

// The job's slot-time up to `now`, and its time in the queue.
JobLedger LedgerAt(const Job& job, absl::Time now);

// The part of `times` that keeps its label.
LabelledTime ConfirmedTimes(const JobLedger& ledger);

}  // namespace muster::controller
