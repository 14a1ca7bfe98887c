#include "controller/model/ledger_rules.h"

#include <algorithm>

namespace muster::controller {
namespace {

bool IsAskedToLeave(const Job& job) {
  return !job.current->live() || job.current->save_requested ||
         job.state == JobState::kRecovering || job.state == JobState::kStopping;
}

TimeLabel TrainingLabel(const JobLedger& ledger) {
  return ledger.step < ledger.repeats_until ? TimeLabel::kRecompute : TimeLabel::kProductive;
}

TimeLabel PhaseLabel(absl::string_view phase) {
  if (phase == "start" || phase.empty()) return TimeLabel::kStart;
  if (phase == "rendezvous") return TimeLabel::kRendezvous;
  if (phase == "load") return TimeLabel::kLoad;
  if (phase == "save") return TimeLabel::kSaveStall;
  if (phase == "done") return TimeLabel::kIdle;
  return TimeLabel::kProductive;
}

TimeLabel LabelOf(const Job& job, const Rank& rank) {
  if (IsAskedToLeave(job)) return TimeLabel::kDrain;
  if (rank.state == RankState::kAssigned) return TimeLabel::kStart;
  const TimeLabel phase = job.ledger.phase;
  const bool runs = rank.state == RankState::kRunning && phase == TimeLabel::kStart;
  return runs || phase == TimeLabel::kProductive ? TrainingLabel(job.ledger) : phase;
}

// Whether time under this label turns out to be lost when nothing came of it.
bool NeedsProgress(TimeLabel label) {
  return label == TimeLabel::kProductive || label == TimeLabel::kRecompute ||
         label == TimeLabel::kSaveStall;
}

bool HoldsNow(const Rank& rank) {
  return rank.held_until == absl::InfiniteFuture() && rank.held_from != absl::InfinitePast();
}

uint64_t SlotsHeld(const Attempt& attempt) {
  uint64_t slots = 0;
  for (const Rank& rank : attempt.ranks) slots += HoldsNow(rank) ? rank.slots.size() : 0;
  return slots;
}

void Add(JobLedger& ledger, TimeLabel label, absl::Duration slot_time) {
  ledger.times[label] += slot_time;
  // A gang that was asked to leave need not get on: what it did before stands.
  if (label == TimeLabel::kDrain) ledger.unconfirmed = absl::ZeroDuration();
  if (!NeedsProgress(label)) return;
  if (ledger.unconfirmed_label != label) {
    ledger.unconfirmed_label = label;
    ledger.unconfirmed = absl::ZeroDuration();
  }
  ledger.unconfirmed += slot_time;
}

// Gives `slot_time` of what is unconfirmed another label.
void Relabel(JobLedger& ledger, TimeLabel to, absl::Duration slot_time) {
  slot_time = std::min(slot_time, ledger.unconfirmed);
  ledger.times[ledger.unconfirmed_label] -= slot_time;
  ledger.times[to] += slot_time;
  ledger.unconfirmed -= slot_time;
}

// The share done / all of the slot-time, in whole nanoseconds.
absl::Duration Share(absl::Duration slot_time, int64_t done, int64_t all) {
  const double share = static_cast<double>(done) / static_cast<double>(all);
  return absl::Floor(std::min(slot_time, slot_time * share), absl::Nanoseconds(1));
}

// The gang went from ledger.step to `step`: what it held meanwhile is decided.
void TakeSteps(JobLedger& ledger, int64_t step, absl::Duration stall_per_step, uint64_t slots) {
  const int64_t steps = step - ledger.step;
  if (ledger.unconfirmed_label != TimeLabel::kSaveStall && stall_per_step > absl::ZeroDuration()) {
    const absl::Duration stalled = stall_per_step * static_cast<double>(steps) * slots;
    Relabel(ledger, TimeLabel::kSaveStall, absl::Floor(stalled, absl::Nanoseconds(1)));
  }
  const bool ends_repeating = ledger.step < ledger.repeats_until && step > ledger.repeats_until;
  if (ends_repeating && ledger.unconfirmed_label == TimeLabel::kRecompute) {
    Relabel(ledger, TimeLabel::kProductive,
            Share(ledger.unconfirmed, step - ledger.repeats_until, steps));
  }
}

}  // namespace

absl::string_view TimeLabelName(TimeLabel label) {
  switch (label) {
    case TimeLabel::kStart:
      return "start";
    case TimeLabel::kRendezvous:
      return "rendezvous";
    case TimeLabel::kLoad:
      return "load";
    case TimeLabel::kProductive:
      return "productive";
    case TimeLabel::kSaveStall:
      return "save_stall";
    case TimeLabel::kRecompute:
      return "recompute";
    case TimeLabel::kHang:
      return "hang";
    case TimeLabel::kIdle:
      return "idle";
    case TimeLabel::kDrain:
      return "drain";
  }
  return "unknown";
}

absl::Time WholeNanoseconds(absl::Time time) {
  return absl::UnixEpoch() + absl::Floor(time - absl::UnixEpoch(), absl::Nanoseconds(1));
}

void CloseInterval(Job& job, absl::Time now) {
  now = WholeNanoseconds(now);
  JobLedger& ledger = job.ledger;
  if (now <= ledger.until) return;
  const absl::Duration elapsed =
      ledger.until == absl::InfinitePast() ? absl::ZeroDuration() : now - ledger.until;
  ledger.until = now;
  if (job.state == JobState::kPending) ledger.queued += elapsed;
  if (job.current == nullptr || elapsed == absl::ZeroDuration()) return;
  // Ranks of one gang differ in little: one entry for each label, not for each rank.
  std::array<uint64_t, kTimeLabelCount> slots{};
  for (const Rank& rank : job.current->ranks) {
    if (HoldsNow(rank)) slots[static_cast<int>(LabelOf(job, rank))] += rank.slots.size();
  }
  for (int label = 0; label < kTimeLabelCount; ++label) {
    if (slots[label] > 0) Add(ledger, static_cast<TimeLabel>(label), elapsed * slots[label]);
  }
}

void BeginAttempt(Job& job) {
  JobLedger& ledger = job.ledger;
  ledger.phase = TimeLabel::kStart;
  ledger.step = job.current->first_step;
  ledger.repeats_until = ledger.highest_step;
  ledger.unconfirmed = absl::ZeroDuration();
}

void EndHold(Rank& rank, absl::Time now) {
  if (rank.held_until == absl::InfiniteFuture()) rank.held_until = now;
}

void NoteProgress(const Attempt& attempt, JobLedger& ledger, const ProgressNote& note) {
  const TimeLabel phase = PhaseLabel(note.phase);
  const bool new_phase = phase != ledger.phase;
  if (note.step > ledger.step) {
    TakeSteps(ledger, note.step, note.stall_per_step, SlotsHeld(attempt));
  }
  const bool moved = new_phase || note.moved || (note.step > 0 && note.step != ledger.step);
  if (moved) ledger.unconfirmed = absl::ZeroDuration();
  ledger.phase = phase;
  // Lower than before: it resumed from an older checkpoint than the one that was offered first.
  if (note.step > 0) ledger.step = note.step;
  ledger.highest_step = std::max(ledger.highest_step, ledger.step);
}

void NoteStep(Job& job, int64_t step) {
  JobLedger& ledger = job.ledger;
  if (step <= ledger.step) return;
  TakeSteps(ledger, step, absl::ZeroDuration(), SlotsHeld(*job.current));
  ledger.unconfirmed = absl::ZeroDuration();
  ledger.step = step;
  ledger.highest_step = std::max(ledger.highest_step, step);
}

void NoteStandstill(Job& job) { Relabel(job.ledger, TimeLabel::kHang, job.ledger.unconfirmed); }

absl::Time HeldFrom(const Attempt& attempt) {
  return attempt.held_from != absl::InfinitePast() ? attempt.held_from : attempt.started;
}

absl::Time HeldUntil(const Attempt& attempt) {
  return attempt.held_until != absl::InfiniteFuture() ? attempt.held_until : attempt.ended;
}

absl::Duration Lasted(const Attempt& attempt, absl::Time now) {
  const bool ended = !attempt.live();
  const bool noted = attempt.held_from != absl::InfinitePast() &&
                     (!ended || attempt.held_until != absl::InfiniteFuture());
  const absl::Duration lasted = noted ? std::min(attempt.held_until, now) - attempt.held_from
                                      : std::min(attempt.ended, now) - attempt.started;
  return std::max(lasted, absl::ZeroDuration());
}

absl::Time HappenedAt(const JobEvent& event) {
  return event.at != absl::InfinitePast() ? event.at : event.time;
}

absl::Time SubmittedAt(const Job& job) {
  const bool told = !job.events.empty() && job.events.front()->reason == Reason::kSubmitted;
  return told ? HappenedAt(*job.events.front()) : job.submitted;
}

absl::Time FinishedAt(const Job& job) {
  if (!IsTerminal(job.state)) return absl::InfinitePast();
  for (auto it = job.events.rbegin(); it != job.events.rend(); ++it) {
    if (IsTerminal((*it)->to) && !IsTerminal((*it)->from)) return HappenedAt(**it);
  }
  return job.finished;
}

absl::Time CreatedAt(const Checkpoint& checkpoint) {
  return checkpoint.created_at != absl::InfinitePast() ? checkpoint.created_at : checkpoint.created;
}

JobLedger LedgerAt(const Job& job, absl::Time now) {
  Job copy;
  copy.state = job.state;
  copy.current = job.current;
  copy.ledger = job.ledger;
  CloseInterval(copy, now);
  return copy.ledger;
}

LabelledTime ConfirmedTimes(const JobLedger& ledger) {
  LabelledTime confirmed = ledger.times;
  confirmed[ledger.unconfirmed_label] -= ledger.unconfirmed;
  return confirmed;
}

}  // namespace muster::controller
